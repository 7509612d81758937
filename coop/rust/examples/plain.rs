// SPDX-License-Identifier: MIT
//! The smallest program with both kinds of work: a frame is shown every 20 ms, at its time, and in between the next ones are decoded,
//! the most important first, in pieces well below 1 ms (Figure 3 of the paper, without the video). It is `examples/plain.c`.

use coop::{Coop, Time};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

const FRAMES: u32 = 10;
const PIECES: u32 = 40;
const FRAME: Duration = Duration::from_millis(20);

/// About 0.1 ms of work.
fn decode_piece() {
    let end = Time::now() + Duration::from_micros(100);
    while Time::now() < end {}
}

fn show(coop: &Coop, number: u32, start: Time) -> io::Result<()> {
    let pieces_done = Rc::new(Cell::new(0));
    let done = Rc::clone(&pieces_done);
    let decode = coop.best_effort(number.into(), move |_| {
        decode_piece();
        done.set(done.get() + 1);
        (done.get() < PIECES).then_some(number.into())
    })?;
    let display = coop.timer(start + FRAME * (number + 1), move |coop, release| {
        let tardiness = Time::now() - release;
        // Not decoded in time: it is dropped, and its decoding with it. Nobody had to estimate anything.
        if decode.cancel() {
            println!("frame {number} dropped after {} of {PIECES} pieces", pieces_done.get());
        } else {
            println!("frame {number} shown {} us late", tardiness.as_micros());
        }
        if number == FRAMES - 1 {
            coop.stop();
        }
        None
    })?;
    display.detach();
    Ok(())
}

fn main() -> io::Result<()> {
    let coop = Coop::new()?;
    let start = Time::now();
    for number in 0..FRAMES {
        show(&coop, number, start)?;
    }
    coop.run()?;
    match coop::promise_error() {
        Some(error) => println!("no promise ({error}): timing as the kernel gives it"),
        None => println!("limelight kept the releases"),
    }
    Ok(())
}
