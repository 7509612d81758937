// SPDX-License-Identifier: GPL-2.0-only
//! Are the maps of the BPF program of the shape that is read here? Both sides have their types from the headers of `abi`, at different moments of a build. Where
//! one of them was left behind, what is read has another length than what is there, and is passed over ([`crate::bytes::read`]): nobody would hold a
//! reservation, or be rated, and nothing would say so.

use std::mem::size_of;

use anyhow::{Result, bail};
use limelight_abi::sched::{
    ll_consents, ll_cpu_load, ll_edge, ll_file, ll_page_owner, ll_proc_stats, ll_rating, ll_reservation, ll_spec,
};

use crate::reserve::LOCK;
use crate::skel::OpenBpfMaps;

/// A map, with the bytes of its keys and of its values: as there are, and as are read.
struct Layout {
    name: &'static str,
    keys: (u32, usize),
    values: (u32, usize),
}

/// Check every map whose entries are read or written as types of the boundary. `task_ctxs` is not: its type is made from the program itself.
///
/// # Errors
/// Which is of another shape.
pub(crate) fn check(maps: &OpenBpfMaps<'_>) -> Result<()> {
    const NUMBER: usize = size_of::<u32>();
    macro_rules! layout {
        ($map:ident, $key:expr, $value:expr) => {
            Layout {
                name: stringify!($map),
                keys: (maps.$map.key_size(), $key),
                values: (maps.$map.value_size(), $value),
            }
        };
    }
    compare(&[
        layout!(ratings, NUMBER, size_of::<ll_rating>()),
        layout!(proc_stats, NUMBER, size_of::<ll_proc_stats>()),
        layout!(edges, size_of::<ll_edge>(), size_of::<u64>()),
        layout!(specs, size_of::<ll_file>(), size_of::<ll_spec>()),
        layout!(reservations, NUMBER, LOCK + size_of::<ll_reservation>()),
        layout!(loads, NUMBER, size_of::<ll_cpu_load>()),
        layout!(coop_pages, NUMBER, NUMBER),
        layout!(coop_numbers, NUMBER, NUMBER),
        layout!(coop_owners, NUMBER, size_of::<ll_page_owner>()),
        layout!(coop_consents, NUMBER, size_of::<ll_consents>()),
    ])
}

fn compare(layouts: &[Layout]) -> Result<()> {
    for Layout { name, keys, values } in layouts {
        for (what, (there, read)) in [("keys", keys), ("values", values)] {
            if *there as usize != *read {
                bail!(
                    "the scheduler's map '{name}' has {what} of {there} bytes, and the daemon reads {read}; reason: the scheduler and the daemon are of \
                     different builds; fix: build both from one tree (cargo clean, then ./test build)"
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use libbpf_rs::skel::SkelBuilder;

    use super::*;
    use crate::skel::BpfSkelBuilder;

    /// The maps of the program that this was built with are as they are read; to open it takes no right and no kernel. If one's values had grown there
    /// only, or its keys, or a lock before them, the error would name it, with both sizes and what to do.
    #[test]
    fn a_map_of_another_shape_is_named() {
        let mut object = MaybeUninit::uninit();
        let mut open = BpfSkelBuilder::default().open(&mut object).unwrap();
        check(&open.maps).unwrap();
        let loads = size_of::<ll_cpu_load>();
        open.maps.loads.set_value_size(loads as u32 + 8).unwrap();
        let error = check(&open.maps).unwrap_err().to_string();
        for said in [
            "'loads'",
            &format!("values of {} bytes", loads + 8),
            &format!("reads {loads};"),
            "the scheduler and the daemon are of different builds; fix: build both from one tree",
        ] {
            assert!(error.contains(said), "{said} in {error}");
        }
        open.maps.loads.set_value_size(loads as u32).unwrap();
        let held = size_of::<ll_reservation>() as u32;
        open.maps.reservations.set_value_size(held).unwrap();
        let error = check(&open.maps).unwrap_err().to_string();
        assert!(error.contains(&format!("'reservations' has values of {held} bytes")), "without its lock: {error}");
        open.maps.reservations.set_value_size(held + LOCK as u32).unwrap();
        check(&open.maps).unwrap();
        open.maps.specs.set_key_size(24).unwrap();
        assert!(check(&open.maps).unwrap_err().to_string().contains("'specs' has keys of 24 bytes"));
    }

    /// Each map that is declared with a type of the boundary is among those that are checked: one that is added later is not forgotten.
    #[test]
    fn no_map_of_the_boundary_is_left_out() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
        let checked = include_str!("layout.rs");
        let mut found = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            // The folder of pure arithmetic has no maps.
            let Ok(source) = std::fs::read_to_string(&path) else { continue };
            for (declared, rest) in source.split("struct {\n").skip(1).filter_map(|part| part.split_once("\n} ")) {
                let Some((name, _)) = rest.split_once(" SEC(\".maps\")").filter(|(name, _)| !name.contains('\n'))
                else {
                    continue;
                };
                let own = declared.lines().any(|line| line.contains("__type(") && line.contains("struct ll_"));
                // Of these the daemon knows nothing.
                if own && name != "release_buckets" {
                    found += 1;
                    assert!(checked.contains(&format!("layout!({name}, ")), "{name}, of {}", path.display());
                }
            }
        }
        assert!(found >= 7, "{found}: declared otherwise than this looks for");
    }
}
