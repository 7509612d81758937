// SPDX-License-Identifier: GPL-2.0-only
//! Watches a display and prints each message as a line of JSON: `cargo run -p limelight-sense --example watch -- :0`.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use limelight_abi::sense::MAX_PACKET_BYTES;
use limelight_sense::{WatchOptions, watch};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};

fn main() {
    if let Err(error) = print_messages() {
        eprintln!("watch: {error}");
        std::process::exit(1);
    }
}

fn print_messages() -> Result<(), Box<dyn std::error::Error>> {
    let display = std::env::args().nth(1).ok_or("name the display to watch, such as :0")?;
    let (ours, report) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    let helper = std::thread::spawn(move || watch(WatchOptions { display, report }));
    let mut packet = vec![0; MAX_PACKET_BYTES];
    loop {
        let read = recv(ours.as_raw_fd(), &mut packet, MsgFlags::empty())?;
        if read == 0 {
            break;
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&packet[..read])?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    helper.join().map_err(|_| "the watching thread panicked")??;
    Ok(())
}
