// SPDX-License-Identifier: GPL-2.0-only
//! Watches when one process wants the CPU and when it has it, with a BPF program of its own (`bpf/stints.bpf.c`): under any scheduler, with or
//! without the daemon. What is made of it: `limelight_spec::suggest`.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use limelight_abi::record::ll_stint;

#[allow(clippy::all, clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines, unused_imports, missing_docs)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}

use skel::{BpfSkel, BpfSkelBuilder};

/// Where the kernel says what its structures look like.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Room for the BPF object, which must outlive the recorder.
pub type Room = MaybeUninit<OpenObject>;

/// Watches one process. Dropping it ends that, and nothing is kept.
pub struct Recorder<'room> {
    stints: Rc<RefCell<Vec<ll_stint>>>,
    buffer: RingBuffer<'static>,
    skel: BpfSkel<'room>,
}

impl<'room> Recorder<'room> {
    /// Load the program. It watches nobody yet.
    ///
    /// # Errors
    /// The kernel has no BTF, or the caller may not load BPF programs.
    pub fn load(room: &'room mut Room) -> Result<Self> {
        if !Path::new(BTF).exists() {
            bail!(
                "this kernel does not say what its structures look like: {BTF} is missing; use one with CONFIG_DEBUG_INFO_BTF=y"
            );
        }
        let open = BpfSkelBuilder::default().open(room).context("cannot open the BPF program that watches")?;
        let mut skel = open.load().context("the kernel refuses the BPF program that watches")?;
        skel.attach().context("cannot watch switches and wake-ups")?;
        let stints = Rc::new(RefCell::new(Vec::new()));
        let filled = Rc::clone(&stints);
        let mut builder = RingBufferBuilder::new();
        builder.add(&skel.maps.stints, move |bytes: &[u8]| {
            filled.borrow_mut().extend(read(bytes));
            0
        })?;
        let buffer = builder.build().context("cannot read what the BPF program sees")?;
        Ok(Self { stints, buffer, skel })
    }

    /// Watch process `tgid` from now on.
    ///
    /// # Errors
    /// The BPF object has no variables.
    pub fn watch(&mut self, tgid: u32) -> Result<()> {
        self.skel.maps.bss_data.as_mut().context("the BPF object has no variables")?.watched = tgid;
        Ok(())
    }

    /// What was seen since the last call. Call it several times a second.
    ///
    /// # Errors
    /// The buffer cannot be read.
    pub fn take(&mut self) -> Result<Vec<ll_stint>> {
        self.buffer.consume().context("cannot read what the BPF program sees")?;
        Ok(self.stints.take())
    }

    /// What was seen since the last call, and what is under way at `now_ns` as if it ended then: who never leaves the CPU shows no other way.
    /// It is seen again when it ends.
    ///
    /// # Errors
    /// The buffer cannot be read.
    pub fn take_all(&mut self, now_ns: u64) -> Result<Vec<ll_stint>> {
        let threads: Vec<Vec<u8>> = self.skel.maps.threads.keys().collect();
        let mut under_way = Vec::new();
        for key in threads {
            let value = self.skel.maps.threads.lookup(&key, MapFlags::ANY).ok().flatten();
            under_way.extend(value.and_then(|value| begun(&key, &value, now_ns)));
        }
        let mut stints = self.take()?;
        stints.extend(under_way);
        Ok(stints)
    }

    /// How many stints were lost because nobody took them in time.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.skel.maps.bss_data.as_ref().map_or(0, |bss| bss.lost)
    }
}

/// A stint from its bytes; none where there are not exactly as many as it takes.
fn read(bytes: &[u8]) -> Option<ll_stint> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.len() != size_of::<ll_stint>() {
        return None;
    }
    Some(ll_stint { woken_ns: word(0)?, start_ns: word(8)?, end_ns: word(16)?, tid: half(24)?, slept: half(28)? })
}

/// The stint of thread `key` (`struct under_way` in the BPF program), if it is on a CPU.
fn begun(key: &[u8], value: &[u8], now_ns: u64) -> Option<ll_stint> {
    let word = |at: usize| Some(u64::from_ne_bytes(value.get(at..at + 8)?.try_into().ok()?));
    let (woken_ns, start_ns) = (word(0)?, word(8)?);
    let tid = u32::from_ne_bytes(key.try_into().ok()?);
    (1..now_ns).contains(&start_ns).then_some(ll_stint { woken_ns, start_ns, end_ns: now_ns, tid, slept: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stint is read from its bytes, in the order of the header; a wrong length is none.
    #[test]
    fn stints_are_read() {
        let mut bytes = Vec::new();
        for word in [1_u64, 2, 3] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(4_u32.to_ne_bytes());
        bytes.extend(1_u32.to_ne_bytes());
        assert_eq!(read(&bytes), Some(ll_stint { woken_ns: 1, start_ns: 2, end_ns: 3, tid: 4, slept: 1 }));
        assert_eq!(read(&bytes[1..]), None);
    }

    /// Who is on a CPU is seen as if it left now; who is not, is not.
    #[test]
    fn what_is_under_way_is_seen() {
        let value = |start_ns: u64| [0_u64.to_ne_bytes(), start_ns.to_ne_bytes()].concat();
        let expected = ll_stint { woken_ns: 0, start_ns: 5, end_ns: 9, tid: 7, slept: 0 };
        assert_eq!(begun(&7_u32.to_ne_bytes(), &value(5), 9), Some(expected));
        assert_eq!(begun(&7_u32.to_ne_bytes(), &value(0), 9), None);
    }
}
