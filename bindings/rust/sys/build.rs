//! Writes the interface from the C headers, and links libcusight: of the folder CUSIGHT_LIB_DIR, or of the system.
use std::{env, path::Path, process::Command};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let file = Path::new(&env::var("OUT_DIR").unwrap()).join("interface.rs");
    let written = Command::new("python3").arg(root.join("scripts/rust_interface.py")).arg(file).status();
    assert!(
        written.map_or(false, |status| status.success()),
        "scripts/rust_interface.py failed: it needs python3 and its module clang"
    );
    for path in ["scripts/rust_interface.py", "scripts/interface", "include/cusight"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=CUSIGHT_LIB_DIR");
    if let Ok(folder) = env::var("CUSIGHT_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
    }
    println!("cargo:rustc-link-lib=dylib=cusight");
}
