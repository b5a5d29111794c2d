#![doc = include_str!("../README.md")]
mod integral;
mod matching;
mod matrix;

pub use cusight_sys as sys;
pub use integral::{box_sums, Integrator, Sum};
pub use matching::{Match, Matcher, MatcherOptions, Method};
pub use matrix::{Element, Matrix, Pixel};

use std::ffi::CStr;
use std::fmt;

/// A call that failed: its status, one of `sys::CUS_ERROR_...`, and the library's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: sys::cusStatus,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// The result of a call of the library; its message is that of this thread.
fn check(status: sys::cusStatus) -> Result<()> {
    let message = || unsafe { CStr::from_ptr(sys::cusLastError()) }.to_string_lossy().into_owned();
    if status == sys::CUS_OK {
        Ok(())
    } else {
        Err(Error { status, message: message() })
    }
}

/// A number as C's int.
fn int(name: &str, value: usize) -> Result<std::os::raw::c_int> {
    let message = || format!("cusight: {name} is {value}, expected at most {}", i32::MAX);
    value.try_into().map_err(|_| Error { status: sys::CUS_ERROR_VALUE, message: message() })
}
