use crate::{check, int, sys, Element, Matrix, Pixel, Result};
use std::os::raw::c_int;
use std::ptr::null_mut;

/// A type of tables of `T`'s sums: i32 (exact modulo 2^32) and f64 of bytes, f64 of floats.
pub trait Sum<T>: Element {}
impl Sum<u8> for i32 {}
impl Sum<u8> for f64 {}
impl Sum<f32> for f64 {}

/// Memory for the integral images of one frame after the other. One call at a time may use it, so it can move to another thread but is not
/// shared:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<cusight::Integrator>();
/// ```
pub struct Integrator {
    raw: *mut sys::cusIntegrator,
    /// Whether tables of floats have the same bits on CPU and GPU, and with any number of threads.
    pub reproducible: bool,
}

unsafe impl Send for Integrator {}

impl Integrator {
    /// For sources of up to rows x cols values: channels count as columns.
    pub fn new(rows: usize, cols: usize) -> Result<Self> {
        let mut integrator = Integrator { raw: null_mut(), reproducible: false };
        check(unsafe { sys::cusIntegratorCreate(&mut integrator.raw, int("rows", rows)?, int("cols", cols)?, sys::CUS_HOST) })?;
        Ok(integrator)
    }

    /// The table whose value (y + 1, x + 1) is the sum of the values up to (y, x), for each channel.
    pub fn sums<T: Pixel, S: Sum<T>>(&mut self, source: &Matrix<T>) -> Result<Matrix<S>> {
        Matrix::made(|table| self.run(&source.raw, table, null_mut(), S::DEPTH))
    }

    /// The same table of the values' squares.
    pub fn squares<T: Pixel>(&mut self, source: &Matrix<T>) -> Result<Matrix<f64>> {
        Matrix::made(|table| self.run(&source.raw, null_mut(), table, sys::CUS_64F))
    }

    fn run(&mut self, source: &sys::cusMat, sum: *mut sys::cusMat, squares: *mut sys::cusMat, depth: c_int) -> sys::cusStatus {
        unsafe {
            let mut options = sys::cusIntegralDefaults();
            options.sum_depth = depth;
            options.reproducible = self.reproducible.into();
            sys::cusIntegratorRun(self.raw, source, sum, squares, &options, null_mut())
        }
    }
}

impl Drop for Integrator {
    fn drop(&mut self) {
        unsafe { sys::cusIntegratorDestroy(self.raw) }
    }
}

/// The sum over each of `boxes`, which are x, y, width and height, from a table: a row for each box, with the table's channels. It is NaN
/// for boxes that are not inside the source.
pub fn box_sums<S: Element>(table: &Matrix<S>, boxes: &[[i32; 4]]) -> Result<Matrix<f64>> {
    let boxes = Matrix::from_slice(boxes.len(), 4, 1, &boxes.concat())?;
    Matrix::made(|sums| unsafe { sys::cusBoxSums(&table.raw, &boxes.raw, sums, null_mut()) })
}
