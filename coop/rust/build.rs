// SPDX-License-Identifier: MIT
//! Builds libcoop from the sources beside this crate, and turns its header into Rust, so that nothing of it is typed twice.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let header = "../include/coop.h";
    println!("cargo:rerun-if-changed={header}");
    println!("cargo:rerun-if-changed=../../abi/include/coop_abi.h");
    println!("cargo:rerun-if-changed=../src");
    let mut sources = Vec::new();
    for entry in fs::read_dir("../src")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    let mut build = cc::Build::new();
    build
        .include("../include")
        .include("../../abi/include")
        .define("_GNU_SOURCE", None)
        .std("gnu11")
        .flag("-fvisibility=hidden");
    let parts = build.files(sources).compile_intermediates();
    let whole = PathBuf::from(env::var("OUT_DIR")?).join("whole.o");
    unite(&build.get_compiler(), &parts, &whole)?;
    cc::Build::new().object(whole).compile("coop");
    bindgen::Builder::default()
        .header(header)
        .allowlist_function("coop_.*")
        .allowlist_type("coop_.*")
        .allowlist_var("COOP_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(true)
        .generate()?
        .write_to_file(PathBuf::from(env::var("OUT_DIR")?).join("coop.rs"))?;
    Ok(())
}

/// One object, as in libcoop.a (coop/Makefile): what is the library's own is no name in the program, which may have a `queue_push()` itself.
fn unite(compiler: &cc::Tool, parts: &[PathBuf], whole: &Path) -> Outcome<()> {
    run(compiler.to_command().args(["-r", "-nostdlib", "-o"]).arg(whole).args(parts))?;
    println!("cargo:rerun-if-env-changed=OBJCOPY");
    let objcopy = env::var_os("OBJCOPY").unwrap_or_else(|| OsString::from("objcopy"));
    run(Command::new(objcopy).arg("--localize-hidden").arg(whole))
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}
