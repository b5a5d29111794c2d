//! Exact template matching and integral images on the CPU, by the C library cusight.
//!
//! Pictures are borrowed and results owned. Nothing panics but an index out of range: calls return the library's [`Error`].
use cusight_sys as sys;
use std::{ffi::CStr, fmt, marker::PhantomData, os::raw::c_int, ptr};

/// What the library says of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// `cusight_sys::CUS_ERROR_VALUE` and so on.
    pub status: c_int,
    /// Names the function, the argument, its value and what was expected.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

fn check(status: sys::cusStatus) -> Result<()> {
    if status == sys::CUS_OK {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(sys::cusLastError()) };
    Err(Error { status, message: message.to_string_lossy().into_owned() })
}

/// The version of the library that runs.
pub fn version() -> &'static str {
    unsafe { CStr::from_ptr(sys::cusVersion()) }.to_str().unwrap_or("")
}

mod private {
    pub trait Sealed {}
}
/// A number that matrices are made of.
pub trait Element: Copy + Default + private::Sealed {
    #[doc(hidden)]
    const DEPTH: c_int;
}
/// A number that pictures are made of: `u8` or `f32`.
pub trait Pixel: Element {}
/// A number that sums are made of: `i32`, of bytes modulo 2^32, or `f64`.
pub trait Sum: Element {}

macro_rules! elements {
    ($($number:ty, $depth:ident, $role:ident;)*) => {$(
        impl private::Sealed for $number {}
        impl Element for $number {
            const DEPTH: c_int = sys::$depth;
        }
        impl $role for $number {}
    )*};
}
elements! { u8, CUS_8U, Pixel; f32, CUS_32F, Pixel; i32, CUS_32S, Sum; f64, CUS_64F, Sum; }

/// A borrowed matrix, of which pixels have 1 to 4 interleaved channels.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    mat: sys::cusMat,
    data: PhantomData<&'a [T]>,
}
unsafe impl<T: Sync> Send for View<'_, T> {}
unsafe impl<T: Sync> Sync for View<'_, T> {}

impl<'a, T: Element> View<'a, T> {
    /// `data`: rows without padding.
    pub fn new(data: &'a [T], rows: usize, cols: usize, channels: usize) -> Result<Self> {
        Self::with_stride(data, rows, cols, channels, cols.saturating_mul(channels))
    }

    /// `stride`: numbers from one row to the next.
    pub fn with_stride(data: &'a [T], rows: usize, cols: usize, channels: usize, stride: usize) -> Result<Self> {
        let bad = |message| Err(Error { status: sys::CUS_ERROR_SIZE, message });
        let needed = cols.checked_mul(channels).filter(|&width| width <= stride && rows > 0);
        let needed = needed.and_then(|width| (rows - 1).checked_mul(stride)?.checked_add(width));
        if needed.map_or(true, |needed| needed > data.len())
            || !(1..=512).contains(&channels)
            || rows.max(cols) > c_int::MAX as usize
        {
            let has = data.len();
            return bad(format!(
                "View: {rows} x {cols} with {channels} channels and a stride of {stride} does not fit into {has} numbers"
            ));
        }
        let mut mat = empty();
        let (kind, step) = (T::DEPTH + ((channels as c_int - 1) << 3), stride.saturating_mul(std::mem::size_of::<T>()));
        let data = data.as_ptr() as *mut _; // never written: a View is only an input
        check(unsafe { sys::cusMatWrap(&mut mat, rows as c_int, cols as c_int, kind, sys::CUS_HOST, data, step) })?;
        Ok(View { mat, data: PhantomData })
    }
}

/// A matrix of the library's memory.
pub struct Matrix<T> {
    mat: sys::cusMat,
    data: PhantomData<T>,
}
unsafe impl<T: Send> Send for Matrix<T> {}
unsafe impl<T: Sync> Sync for Matrix<T> {}

impl<T: Element> Matrix<T> {
    /// Empty: what a call writes.
    fn empty() -> Self {
        Matrix { mat: empty(), data: PhantomData }
    }
    pub fn rows(&self) -> usize {
        self.mat.rows as usize
    }
    pub fn cols(&self) -> usize {
        self.mat.cols as usize
    }
    pub fn channels(&self) -> usize {
        (self.mat.r#type >> 3) as usize + 1
    }
    /// The numbers of a row: all channels of its columns.
    pub fn row(&self, y: usize) -> &[T] {
        assert!(y < self.rows(), "row {y} of {}", self.rows());
        unsafe {
            std::slice::from_raw_parts(
                (self.mat.data as *const u8).add(y * self.mat.step) as *const T,
                self.cols() * self.channels(),
            )
        }
    }
    pub fn view(&self) -> View<'_, T> {
        View { mat: self.mat, data: PhantomData }
    }
}
impl<T> Drop for Matrix<T> {
    fn drop(&mut self) {
        unsafe { sys::cusMatRelease(&mut self.mat) }
    }
}

fn empty() -> sys::cusMat {
    sys::cusMat {
        rows: 0,
        cols: 0,
        r#type: 0,
        space: sys::CUS_HOST,
        step: 0,
        data: ptr::null_mut(),
        owned: ptr::null_mut(),
        pinned: 0,
    }
}

/// The integral image: element (y, x) is the sum of all pixels above and to the left. Floats have sums of `f64`.
pub fn integral<S: Sum, T: Pixel>(image: View<T>) -> Result<Matrix<S>> {
    let mut options = unsafe { sys::cusIntegralDefaults() };
    options.sum_depth = S::DEPTH;
    if T::DEPTH == sys::CUS_32F && S::DEPTH != sys::CUS_64F {
        return Err(Error { status: sys::CUS_ERROR_TYPE, message: "integral: sums of f32 are i32, expected f64".into() });
    }
    let mut sum = Matrix::empty();
    check(unsafe { sys::cusIntegral(&image.mat, &mut sum.mat, ptr::null_mut(), &options, ptr::null_mut()) })?;
    Ok(sum)
}

/// The integral image of the squares.
pub fn integral_of_squares<T: Pixel>(image: View<T>) -> Result<Matrix<f64>> {
    let mut squares = Matrix::empty();
    check(unsafe { sys::cusIntegral(&image.mat, ptr::null_mut(), &mut squares.mat, ptr::null(), ptr::null_mut()) })?;
    Ok(squares)
}

/// Sums over rectangles `[x, y, width, height]` of the image from its integral image, a row each; NaN if it is not inside.
pub fn box_sums<S: Sum>(table: View<S>, boxes: &[[i32; 4]]) -> Result<Matrix<f64>> {
    let flat = unsafe { std::slice::from_raw_parts(boxes.as_ptr() as *const i32, boxes.len() * 4) };
    let (rectangles, mut sums) = (View::new(flat, boxes.len(), 4, 1)?, Matrix::empty());
    check(unsafe { sys::cusBoxSums(&table.mat, &rectangles.mat, &mut sums.mat, ptr::null_mut()) })?;
    Ok(sums)
}

/// How windows are scored; `cusight/match.h` has the formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Sqdiff = sys::CUS_MATCH_SQDIFF as isize,
    SqdiffNormed = sys::CUS_MATCH_SQDIFF_NORMED as isize,
    Ccorr = sys::CUS_MATCH_CCORR as isize,
    CcorrNormed = sys::CUS_MATCH_CCORR_NORMED as isize,
    Ccoeff = sys::CUS_MATCH_CCOEFF as isize,
    CcoeffNormed = sys::CUS_MATCH_CCOEFF_NORMED as isize,
}

/// What to look for. Numbers mean what they mean in `cusMatcherOptions`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatchOptions {
    pub method: Method,
    pub max_matches: i32,
    pub min_distance: i32,
    pub score_limit: Option<f64>,
    pub subpixel: bool,
}
impl Default for MatchOptions {
    fn default() -> Self {
        MatchOptions { method: Method::CcoeffNormed, max_matches: 1, min_distance: 1, score_limit: None, subpixel: false }
    }
}

/// The top-left pixel of a window, and its exact score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    pub x: i32,
    pub y: i32,
    pub score: f64,
    pub dx: f32,
    pub dy: f32,
}

/// Templates, prepared for frames of one size.
pub struct Matcher<T> {
    matcher: *mut sys::cusMatcher,
    max_matches: usize,
    templates: usize,
    data: PhantomData<T>,
}
unsafe impl<T: Send> Send for Matcher<T> {}

impl<T: Pixel> Matcher<T> {
    /// For frames of rows x cols. `mask`, of the templates' size: pixels count where it is not 0.
    pub fn new(templates: &[View<T>], mask: Option<View<u8>>, rows: usize, cols: usize, options: &MatchOptions) -> Result<Self> {
        let mats: Vec<sys::cusMat> = templates.iter().map(|each| each.mat).collect();
        let size = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX); // which is refused
        let mut given = unsafe { sys::cusMatcherDefaults() };
        given.method = options.method as sys::cusMatchMethod;
        given.max_matches = options.max_matches;
        given.min_distance = options.min_distance;
        given.score_limit = options.score_limit.unwrap_or(f64::NAN);
        given.subpixel = options.subpixel.into();
        given.mask = mask.as_ref().map_or(ptr::null(), |mask| &mask.mat);
        let mut matcher = ptr::null_mut();
        check(unsafe {
            sys::cusMatcherCreate(&mut matcher, mats.as_ptr(), size(mats.len()), size(rows), size(cols), &given, ptr::null_mut())
        })?;
        Ok(Matcher { matcher, max_matches: options.max_matches as usize, templates: mats.len(), data: PhantomData })
    }

    /// The matches of each template, best first.
    pub fn run(&mut self, frame: View<T>) -> Result<Vec<Vec<Match>>> {
        check(unsafe { sys::cusMatcherRun(self.matcher, &frame.mat, ptr::null_mut(), ptr::null_mut()) })?;
        (0..self.templates).map(|index| self.matches(index)).collect()
    }

    fn matches(&mut self, index: usize) -> Result<Vec<Match>> {
        let none = sys::cusMatch { x: -1, y: -1, score: f64::NAN, dx: 0.0, dy: 0.0, pixels: 0, filled: -1 };
        let (mut found, mut matches) = (0, vec![none; self.max_matches]);
        let capacity = self.max_matches as c_int;
        check(unsafe {
            sys::cusMatcherGet(self.matcher, index as c_int, matches.as_mut_ptr(), capacity, &mut found, ptr::null_mut())
        })?;
        Ok(matches[..found as usize].iter().map(|m| Match { x: m.x, y: m.y, score: m.score, dx: m.dx, dy: m.dy }).collect())
    }
}
impl<T> Drop for Matcher<T> {
    fn drop(&mut self) {
        unsafe { sys::cusMatcherDestroy(self.matcher) }
    }
}
