//! The C interface of cusight as it is: functions, structs, constants. The comments are those of the headers.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, rustdoc::all)]
use std::marker::{PhantomData, PhantomPinned};
use std::mem::size_of;
use std::os::raw::{c_char, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/interface.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn text(pointer: *const c_char) -> &'static str {
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn the_library_has_every_function() {
        assert!(functions().len() > 180); // a missing one would not link
    }

    #[test]
    fn versions_and_names_are_the_library_s() {
        let version = format!("{CUSIGHT_VERSION_MAJOR}.{CUSIGHT_VERSION_MINOR}.{CUSIGHT_VERSION_PATCH}");
        assert_eq!(text(unsafe { cusVersion() }), version);
        assert_eq!(env!("CARGO_PKG_VERSION"), version);
        assert_eq!(text(unsafe { cusStatusName(CUS_ERROR_CANCELLED) }), "CUS_ERROR_CANCELLED");
        assert_eq!(unsafe { cusTypeSize(CUS_64FC3) }, 24);
    }

    #[test]
    fn structs_are_read_as_the_library_writes_them() {
        let matcher = unsafe { cusMatcherDefaults() };
        assert_eq!((matcher.method, matcher.max_matches, matcher.batch), (CUS_MATCH_CCOEFF_NORMED, 1, 1));
        assert!(matcher.score_limit.is_nan() && matcher.mask.is_null() && matcher.reserved.iter().all(|&value| value == 0));
        let stereo = unsafe { cusStereoDefaults() };
        assert_eq!((stereo.border, stereo.threshold), (CUS_STEREO_ZERO, 0.2));
        assert!(stereo.reserved.iter().all(|&value| value == 0));
    }
}
