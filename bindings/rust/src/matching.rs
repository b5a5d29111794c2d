use crate::{check, int, sys, Matrix, Pixel, Result};
use std::marker::PhantomData;
use std::mem::zeroed;
use std::os::raw::c_int;
use std::ptr::{null, null_mut};

/// How windows are scored, as [`sys::cusMatchMethod`] says. The largest score is best, but for squared differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    SqDiff = sys::CUS_MATCH_SQDIFF as isize,
    SqDiffNormed = sys::CUS_MATCH_SQDIFF_NORMED as isize,
    CCorr = sys::CUS_MATCH_CCORR as isize,
    CCorrNormed = sys::CUS_MATCH_CCORR_NORMED as isize,
    CCoeff = sys::CUS_MATCH_CCOEFF as isize,
    CCoeffNormed = sys::CUS_MATCH_CCOEFF_NORMED as isize,
}

/// What to look for, as [`sys::cusMatcherOptions`] says. Start from `MatcherOptions::default()`, which has its defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MatcherOptions {
    pub method: Method,
    pub max_matches: usize,
    pub min_distance: usize,
    pub score_limit: Option<f64>,
    pub subpixel: bool,
}

impl Default for MatcherOptions {
    fn default() -> Self {
        MatcherOptions { method: Method::CCoeffNormed, max_matches: 1, min_distance: 1, score_limit: None, subpixel: false }
    }
}

/// The window whose first pixel is (x, y); with `subpixel` the extremum is at (x + dx, y + dy).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    pub x: usize,
    pub y: usize,
    pub score: f64,
    pub dx: f32,
    pub dy: f32,
}

/// Prepared templates, for any number of frames of one size. One call at a time may use a matcher, so it can move to another thread
/// but is not shared:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<cusight::Matcher<u8>>();
/// ```
pub struct Matcher<T> {
    raw: *mut sys::cusMatcher,
    count: c_int,
    capacity: c_int,
    pixel: PhantomData<T>,
}

unsafe impl<T> Send for Matcher<T> {}

impl<T: Pixel> Matcher<T> {
    /// A matcher of templates of one size, for frames of `size`, which is rows and columns. With a mask of the templates' size, pixels count where it is not 0.
    pub fn new(
        templates: &[&Matrix<T>], mask: Option<&Matrix<u8>>, size: (usize, usize), options: &MatcherOptions,
    ) -> Result<Self> {
        let views: Vec<sys::cusMat> = templates.iter().map(|template| template.raw).collect();
        let mut raw_options = unsafe { sys::cusMatcherDefaults() };
        raw_options.method = options.method as sys::cusMatchMethod;
        raw_options.mask = mask.map_or(null(), |mask| &mask.raw);
        raw_options.max_matches = int("max_matches", options.max_matches)?;
        raw_options.min_distance = int("min_distance", options.min_distance)?;
        raw_options.score_limit = options.score_limit.unwrap_or(f64::NAN);
        raw_options.subpixel = options.subpixel.into();
        let (count, rows, cols) = (int("count", views.len())?, int("rows", size.0)?, int("cols", size.1)?);
        let mut matcher = Matcher { raw: null_mut(), count, capacity: raw_options.max_matches, pixel: PhantomData };
        check(unsafe { sys::cusMatcherCreate(&mut matcher.raw, views.as_ptr(), count, rows, cols, &raw_options, null_mut()) })?;
        Ok(matcher)
    }

    /// The matches of each template in a frame, best first.
    pub fn run(&mut self, frame: &Matrix<T>) -> Result<Vec<Vec<Match>>> {
        check(unsafe { sys::cusMatcherRun(self.raw, &frame.raw, null_mut(), null_mut()) })?;
        let mut room: Vec<sys::cusMatch> = vec![unsafe { zeroed() }; self.capacity as usize];
        let safe = |&sys::cusMatch { x, y, score, dx, dy, .. }: &_| Match { x: x as usize, y: y as usize, score, dx, dy };
        let mut matches = |index| {
            let mut found = 0;
            check(unsafe { sys::cusMatcherGet(self.raw, index, room.as_mut_ptr(), self.capacity, &mut found, null_mut()) })?;
            Ok(room[..found as usize].iter().map(safe).collect())
        };
        (0..self.count).map(&mut matches).collect()
    }

    /// The score of each template at every position of a frame.
    pub fn scores(&mut self, frame: &Matrix<T>) -> Result<Vec<Matrix<f32>>> {
        let mut maps: Vec<Matrix<f32>> = (0..self.count).map(|_| Matrix::empty()).collect();
        check(unsafe { sys::cusMatcherRun(self.raw, &frame.raw, maps.as_mut_ptr().cast(), null_mut()) })?;
        Ok(maps)
    }
}

impl<T> Drop for Matcher<T> {
    fn drop(&mut self) {
        unsafe { sys::cusMatcherDestroy(self.raw) }
    }
}
