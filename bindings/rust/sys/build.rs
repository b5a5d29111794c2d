//! Writes the declarations from the headers, by scripts/rust_interface.py, and tells cargo where the library is: in CUSIGHT_LIB_DIR, or
//! where pkg-config says.
use std::path::Path;
use std::process::{Command, Stdio};

/// What a command prints.
fn output(command: &mut Command, advice: &str) -> String {
    match command.stderr(Stdio::inherit()).output() {
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        Ok(done) => panic!("{command:?} ended with {}: {advice}", done.status),
        Err(error) => panic!("{command:?} does not start ({error}): {advice}"),
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let declarations = Path::new(&std::env::var("OUT_DIR").unwrap()).join("interface.rs");
    let advice = "the declarations need Python 3 and its module clang (Debian: python3-clang)";
    output(Command::new("python3").arg(root.join("scripts/rust_interface.py")).arg(declarations), advice);
    for path in ["include/cusight", "scripts/interface", "scripts/rust_interface.py"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=CUSIGHT_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Ok(folder) = std::env::var("CUSIGHT_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=cusight");
        return;
    }
    let advice = "set CUSIGHT_LIB_DIR to the folder of libcusight.so, or PKG_CONFIG_PATH to that of cusight.pc";
    for word in output(Command::new("pkg-config").args(["--libs", "cusight"]), advice).split_whitespace() {
        match word.split_at(2) {
            ("-L", folder) => println!("cargo:rustc-link-search=native={folder}"),
            ("-l", name) => println!("cargo:rustc-link-lib={name}"),
            _ => println!("cargo:rustc-link-arg={word}"),
        }
    }
}
