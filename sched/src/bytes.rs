// SPDX-License-Identifier: GPL-2.0-only
//! Values of the boundary as bytes and back. With the mapped map of `consents`, the only unsafe code of this crate.

use std::mem;
use std::slice;

use limelight_abi::coop::coop_header;
use limelight_abi::sched::{
    ll_cpu_load, ll_edge, ll_file, ll_identify_args, ll_page_owner, ll_proc_stats, ll_publish_args, ll_rating,
    ll_reservation, ll_reserve_args, ll_spec,
};

/// A type of the boundary: plain integers, no padding the compiler chose, any bit pattern valid.
///
/// # Safety
/// Implement only for types of which all that is true.
pub unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: structs of fixed-width integers whose size `sched_abi.h` asserts, padding spelled out.
unsafe impl Plain for ll_edge {}
// SAFETY: as above.
unsafe impl Plain for ll_rating {}
// SAFETY: as above.
unsafe impl Plain for ll_proc_stats {}
// SAFETY: as above.
unsafe impl Plain for ll_publish_args {}
// SAFETY: as above.
unsafe impl Plain for ll_file {}
// SAFETY: as above.
unsafe impl Plain for ll_spec {}
// SAFETY: as above.
unsafe impl Plain for ll_reservation {}
// SAFETY: as above.
unsafe impl Plain for ll_cpu_load {}
// SAFETY: as above.
unsafe impl Plain for ll_identify_args {}
// SAFETY: as above.
unsafe impl Plain for ll_reserve_args {}
#[cfg(test)]
// SAFETY: as above.
unsafe impl Plain for limelight_abi::sched::ll_consents {}
// SAFETY: as above.
unsafe impl Plain for ll_page_owner {}
// SAFETY: a struct of fixed-width integers without holes, whose size `coop_abi.h` asserts.
unsafe impl Plain for coop_header {}

/// The bytes of `value`.
pub fn of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `T: Plain`, so all of its bytes are initialised.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast(), mem::size_of::<T>()) }
}

/// The bytes of `value`, to be written to.
pub fn of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: `T: Plain`, so all of its bytes are initialised and any bytes are a value.
    unsafe { slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), mem::size_of::<T>()) }
}

/// A value from its bytes; none where there are not exactly as many as it takes.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != mem::size_of::<T>() {
        return None;
    }
    // SAFETY: `T: Plain`, the length is right, and an unaligned read needs no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value survives the way to bytes and back; a wrong length is refused.
    #[test]
    fn round_trip() {
        let edge = ll_edge { from_tgid: 7, to_tgid: 9 };
        assert_eq!(read::<ll_edge>(of(&edge)), Some(edge));
        assert_eq!(read::<ll_edge>(&[0; 7]), None);
    }
}
