// SPDX-License-Identifier: GPL-2.0-only
//! Pages that are ready before anybody asks, and what is to be done that there are always some. Pure: no I/O, no clock, no kernel.
//!
//! The scheduler has a number for each page. To give a number another page takes an RCU grace period, and so is done by a thread of its own, all that
//! is to be done at once; to bind a ready page to a process takes none. So nobody waits for a grace period but where more ask than are ready.
//!
//! ```text
//!   blank ──a new page is entered, grace period──▶ ready ──take──▶ somebody's ──retire──▶ retired
//!     ▲                                                                                     │
//!     └──────────────── its page is taken out, grace period ────────────────────────────────┘
//! ```
//!
//! A page goes this way once: what a process has had mapped is never given to another one. A number does again and again, and each time all programs
//! that may have read it as somebody's have returned before the next page is entered under it.
//!
//! Bad at: more than [`READY`] processes at once. Those beyond wait for one grace period, all of them for the same.

use std::mem;

use super::Page;

/// Pages that are kept ready: the ten that one user is given in a second (`MAX_GIVEN_PER_SECOND`), and half as many again for others. A login starts
/// some cooperative programs at once, and the largest crowd of the paper is 14. Each takes 36 KiB of the kernel's memory, and all of them 0.6 MiB.
pub const READY: usize = 16;

/// What is to be done in one grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Numbers whose pages are to be taken out.
    pub retired: Vec<u32>,
    /// Numbers under which new pages are to be entered.
    pub blank: Vec<u32>,
}

/// What there is for who asks.
pub enum Taken {
    /// This page, which nobody has had.
    Ready(Page),
    /// None, and one is being made: the same again later.
    Later,
    /// None, and none could be made. It is being tried again, for the next one who asks.
    Never,
}

/// A page that was somebody's.
struct Retired {
    number: u32,
    id: u32,
}

/// Every number there is, but those that are somebody's.
#[derive(Default)]
pub struct Pool {
    blank: Vec<u32>,
    ready: std::collections::VecDeque<Page>,
    retired: Vec<Retired>,
    /// What is being done now, if anything.
    blank_under_way: Vec<u32>,
    retired_under_way: Vec<Retired>,
    is_under_way: bool,
    /// The last attempt has failed, and nobody has asked since.
    has_failed: bool,
}

impl Pool {
    /// So many numbers, from 0, all of them blank.
    pub fn new(numbers: u32) -> Self {
        Self { blank: (0..numbers).rev().collect(), ..Self::default() }
    }

    /// What is to be done now, if anything; the answer goes to [`Self::done`].
    pub fn order(&mut self) -> Option<Batch> {
        if self.is_under_way || self.has_failed {
            return None;
        }
        let missing = READY.saturating_sub(self.ready.len()).min(self.blank.len());
        if missing == 0 && self.retired.is_empty() {
            return None;
        }
        self.is_under_way = true;
        self.blank_under_way = self.blank.split_off(self.blank.len() - missing);
        self.retired_under_way = mem::take(&mut self.retired);
        let retired = self.retired_under_way.iter().map(|page| page.number).collect();
        Some(Batch { retired, blank: self.blank_under_way.clone() })
    }

    /// It is done, and these pages are new; fewer than ordered where there was no room for more. None: nothing is done.
    pub fn done(&mut self, new: Option<Vec<Page>>) {
        self.is_under_way = false;
        let (blank, retired) = (mem::take(&mut self.blank_under_way), mem::take(&mut self.retired_under_way));
        self.has_failed = new.is_none();
        let Some(new) = new else {
            self.blank.extend(blank);
            self.retired.extend(retired);
            return;
        };
        self.blank.extend(blank.into_iter().filter(|number| new.iter().all(|page| page.number != *number)));
        self.blank.extend(retired.into_iter().map(|page| page.number));
        self.ready.extend(new);
    }

    /// A page for who asks: of those that are ready the one that has been so for longest.
    pub fn take(&mut self) -> Taken {
        let had_failed = mem::take(&mut self.has_failed);
        match self.ready.pop_front() {
            Some(page) => Taken::Ready(page),
            None if had_failed => Taken::Never,
            None => Taken::Later,
        }
    }

    /// A page that was taken is nobody's any more. It must be bound to nobody by now.
    pub fn retire(&mut self, page: &Page) {
        self.retired.push(Retired { number: page.number, id: page.id });
    }

    /// Is the page with this id, which was retired, still in the scheduler's map?
    pub fn is_retiring(&self, id: u32) -> bool {
        self.retired.iter().chain(&self.retired_under_way).any(|page| page.id == id)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// What the kernel would make of a batch; the id is 1000 and the number.
    fn made(numbers: &[u32]) -> Option<Vec<Page>> {
        let page =
            |number: &u32| Page { fd: File::open("/dev/null").unwrap().into(), id: 1000 + number, number: *number };
        Some(numbers.iter().map(page).collect())
    }

    /// All that is ordered is done, and there is nothing left to be ordered.
    fn settle(pool: &mut Pool) {
        while let Some(batch) = pool.order() {
            pool.done(made(&batch.blank));
        }
    }

    fn take(pool: &mut Pool) -> Page {
        match pool.take() {
            Taken::Ready(page) => page,
            Taken::Later | Taken::Never => panic!("none is ready"),
        }
    }

    /// So many are ready, and when some are taken as many are ordered, one batch at a time.
    #[test]
    fn what_is_taken_is_made_again() {
        let mut pool = Pool::new(100);
        assert!(matches!(pool.take(), Taken::Later), "none is there before the first is made");
        let first = pool.order().unwrap();
        assert_eq!(first, Batch { retired: vec![], blank: (0..READY as u32).rev().collect() });
        assert_eq!(pool.order(), None, "it is under way");
        pool.done(made(&first.blank));
        assert_eq!(pool.order(), None, "there are enough");
        take(&mut pool);
        assert_eq!(pool.order().unwrap().blank.len(), 1);
        take(&mut pool);
        take(&mut pool);
        assert_eq!(pool.order(), None);
        pool.done(made(&[16]));
        assert_eq!(pool.order().unwrap().blank.len(), 2, "those that were taken meanwhile");
    }

    /// A number has another page only in the batch after the one that has taken its old page out.
    #[test]
    fn a_grace_period_is_between_two_pages_of_a_number() {
        let mut pool = Pool::new(1);
        settle(&mut pool);
        let page = take(&mut pool);
        assert_eq!(pool.order(), None);
        pool.retire(&page);
        assert!(pool.is_retiring(1000));
        assert_eq!(pool.order(), Some(Batch { retired: vec![0], blank: vec![] }));
        assert!(pool.is_retiring(1000));
        pool.done(made(&[]));
        assert!(!pool.is_retiring(1000));
        assert_eq!(pool.order(), Some(Batch { retired: vec![], blank: vec![0] }));
    }

    /// While anything is left, who finds nothing ready has it in the end; and no page is given twice.
    #[test]
    fn every_number_is_used() {
        let mut pool = Pool::new(50);
        let mut taken = Vec::new();
        for _ in 0..50 {
            settle(&mut pool);
            taken.push(take(&mut pool));
        }
        let mut numbers: Vec<u32> = taken.iter().map(|page| page.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
        assert_eq!(pool.order(), None, "none is left");
        taken.iter().for_each(|page| pool.retire(page));
        settle(&mut pool);
        take(&mut pool);
    }

    /// A failure is told to one who asks and finds nothing, and tried again for the next; what is ready is given all the same, and no number is lost.
    #[test]
    fn a_failure_is_tried_again() {
        let mut pool = Pool::new(2);
        settle(&mut pool);
        let page = take(&mut pool);
        pool.retire(&page);
        assert!(pool.order().is_some());
        pool.done(None);
        assert!(pool.is_retiring(page.id));
        assert_eq!(pool.order(), None, "for nobody");
        take(&mut pool);
        assert_eq!(pool.order(), Some(Batch { retired: vec![page.number], blank: vec![] }));
        pool.done(None);
        assert!(matches!(pool.take(), Taken::Never));
        assert!(matches!(pool.take(), Taken::Later));
        settle(&mut pool);
        assert_eq!(take(&mut pool).number, page.number);
    }

    /// Where there was room for some only, the others are ordered again.
    #[test]
    fn some_are_better_than_none() {
        let mut pool = Pool::new(3);
        let batch = pool.order().unwrap();
        pool.done(made(&batch.blank[..1]));
        assert_eq!(pool.order().unwrap().blank.len(), 2);
    }
}
