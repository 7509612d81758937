// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler was last told of each process, and without a look at all of them whether anybody serves the person.

use std::collections::BTreeMap;

use limelight_policy::Rating;

/// Ratings by process.
#[derive(Clone, Debug, Default)]
pub struct Told {
    ratings: BTreeMap<u32, Rating>,
    serving: usize,
}

/// Does it serve the person? A hub does not by itself: a display server has a standing rating.
fn serves(rating: &Rating) -> bool {
    !rating.hub && (rating.in_milli | rating.out_milli) != 0
}

impl Told {
    /// It was told this.
    pub fn insert(&mut self, pid: u32, rating: Rating) {
        self.serving += usize::from(serves(&rating));
        let before = self.ratings.insert(pid, rating);
        self.serving -= usize::from(before.is_some_and(|before| serves(&before)));
    }

    /// It knows nothing of this process any more.
    pub fn remove(&mut self, pid: u32) {
        let before = self.ratings.remove(&pid);
        self.serving -= usize::from(before.is_some_and(|before| serves(&before)));
    }

    /// Does anybody serve the person?
    #[must_use]
    pub fn anybody_serves(&self) -> bool {
        self.serving > 0
    }

    /// All of them, by process.
    #[must_use]
    pub fn ratings(&self) -> &BTreeMap<u32, Rating> {
        &self.ratings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is told, told otherwise and forgotten, twice too: hubs and the unrated do not count.
    #[test]
    fn who_serves_is_counted() {
        let rating = |in_milli, out_milli, hub| Rating { in_milli, out_milli, hub, ..Rating::default() };
        let mut told = Told::default();
        for (pid, rating, anybody) in [
            (1, rating(10, 0, true), false),
            (2, rating(0, 10, false), true),
            (2, rating(0, 0, false), false),
            (2, rating(10, 0, false), true),
            (2, rating(9, 0, false), true),
            (2, rating(9, 0, true), false),
            (3, rating(1, 0, false), true),
        ] {
            told.insert(pid, rating);
            assert_eq!(told.anybody_serves(), anybody, "{pid}: {rating:?}");
        }
        for pid in [3, 3, 2] {
            told.remove(pid);
            assert!(!told.anybody_serves());
        }
        assert_eq!(told.ratings().keys().collect::<Vec<_>>(), [&1]);
    }
}
