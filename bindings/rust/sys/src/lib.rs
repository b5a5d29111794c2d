//! The C interface of cusight, as its headers have it; the crate `cusight` is the safe one.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, rustdoc::all)]
include!(concat!(env!("OUT_DIR"), "/interface.rs"));
