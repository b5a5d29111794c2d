use crate::{check, int, sys, Error, Result};
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::raw::c_int;
use std::ptr::null_mut;
use std::slice;

/// The values that matrices have.
///
/// # Safety
/// `DEPTH` is C's number for the type.
pub unsafe trait Element: Copy {
    #[doc(hidden)]
    const DEPTH: c_int;
}

macro_rules! elements {
    ($($element:ty: $depth:ident),*) => { $(
        unsafe impl Element for $element {
            const DEPTH: c_int = sys::$depth;
        }
    )* };
}
elements!(u8: CUS_8U, i8: CUS_8S, u16: CUS_16U, i16: CUS_16S, i32: CUS_32S, f32: CUS_32F, f64: CUS_64F);

/// The values of pictures: bytes and floats.
pub trait Pixel: Element {}
impl Pixel for u8 {}
impl Pixel for f32 {}

/// A matrix in the memory of the CPU, with 1 to 512 interleaved channels. It owns its values.
#[repr(transparent)] // arrays of it are arrays of C's matrices
pub struct Matrix<T> {
    pub(crate) raw: sys::cusMat,
    element: PhantomData<T>,
}

// Memory of its own, which only &mut changes.
unsafe impl<T: Send> Send for Matrix<T> {}
unsafe impl<T: Sync> Sync for Matrix<T> {}

impl<T: Element> Matrix<T> {
    /// A copy of `values`, row by row.
    pub fn from_slice(rows: usize, cols: usize, channels: usize, values: &[T]) -> Result<Self> {
        let count = rows.checked_mul(cols).and_then(|pixels| pixels.checked_mul(channels));
        if count != Some(values.len()) || !(1..=512).contains(&channels) {
            let (call, count) = ("Matrix::from_slice", values.len());
            let message =
                format!("{call}: values has {count} elements, expected {rows} x {cols} x {channels}, of 1 to 512 channels");
            return Err(Error { status: sys::CUS_ERROR_SIZE, message });
        }
        let (height, width, kind) = (int("rows", rows)?, int("cols", cols)?, T::DEPTH + ((channels as c_int - 1) << 3));
        let mut matrix = Self::made(|made| unsafe { sys::cusMatCreate(made, height, width, kind, sys::CUS_HOST) })?;
        for (y, row) in values.chunks_exact(cols * channels).enumerate() {
            matrix.row_mut(y).copy_from_slice(row);
        }
        Ok(matrix)
    }

    /// A copy of the rectangle whose first pixel is (x, y).
    pub fn region(&self, x: usize, y: usize, cols: usize, rows: usize) -> Result<Self> {
        let (x, y, cols, rows) = (int("x", x)?, int("y", y)?, int("cols", cols)?, int("rows", rows)?);
        let view = Self::made(|made| unsafe { sys::cusMatRegion(&self.raw, x, y, cols, rows, made) })?;
        Self::made(|made| unsafe { sys::cusMatCopy(&view.raw, made, null_mut()) })
    }

    /// Rows, columns, channels.
    pub fn shape(&self) -> (usize, usize, usize) {
        (self.raw.rows as usize, self.raw.cols as usize, unsafe { sys::cusTypeSize(self.raw.r#type) / size_of::<T>() })
    }

    /// The values of row y.
    pub fn row(&self, y: usize) -> &[T] {
        unsafe { slice::from_raw_parts(self.address(y), self.shape().1 * self.shape().2) }
    }

    pub fn row_mut(&mut self, y: usize) -> &mut [T] {
        unsafe { slice::from_raw_parts_mut(self.address(y), self.shape().1 * self.shape().2) }
    }

    /// A copy of all values, row by row.
    pub fn to_vec(&self) -> Vec<T> {
        (0..self.shape().0).flat_map(|y| self.row(y)).copied().collect()
    }

    /// For a call that makes it.
    pub(crate) fn empty() -> Self {
        Matrix { raw: unsafe { zeroed() }, element: PhantomData }
    }

    /// What a call makes, which must have this type, since its bytes are read as such.
    pub(crate) fn made(call: impl FnOnce(*mut sys::cusMat) -> sys::cusStatus) -> Result<Self> {
        let mut matrix = Self::empty();
        check(call(&mut matrix.raw))?;
        assert_eq!(matrix.raw.r#type & 7, T::DEPTH, "the library made a matrix of another type");
        Ok(matrix)
    }

    fn address(&self, y: usize) -> *mut T {
        assert!(y < self.shape().0, "row {y} of a matrix with {} rows", self.shape().0);
        unsafe { self.raw.data.cast::<u8>().add(y * self.raw.step).cast() }
    }
}

impl<T> Drop for Matrix<T> {
    fn drop(&mut self) {
        unsafe { sys::cusMatRelease(&mut self.raw) }
    }
}
