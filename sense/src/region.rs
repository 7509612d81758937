// SPDX-License-Identifier: GPL-2.0-only
//! Sets of pixels as lists of rectangles that do not overlap: enough to say how much of a window can be seen.
//!
//! The X server keeps its own such regions, but asking it costs a round trip for every window above another; the lists
//! here are computed from what the server has already told us. They are short (a desktop shows tens of windows), so a
//! plain list is as fast as the banded form the server uses, and can be checked against a bitmap (see the tests).

/// A rectangle of pixels, `x1 <= x < x2` and `y1 <= y < y2`, in the coordinates of the screen or of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    /// Leftmost column.
    pub x1: i32,
    /// Topmost row.
    pub y1: i32,
    /// First column to the right of it.
    pub x2: i32,
    /// First row below it.
    pub y2: i32,
}

impl Rect {
    /// The rectangle at (`x`, `y`) that is `width` by `height` pixels. Any value of X's 16-bit fields is fine.
    #[must_use]
    pub fn new(x: i32, y: i32, width: i32, height: i32) -> Self {
        Self { x1: x, y1: y, x2: x.saturating_add(width), y2: y.saturating_add(height) }
    }

    /// Whether it holds no pixel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.x1 >= self.x2 || self.y1 >= self.y2
    }

    /// Number of pixels.
    #[must_use]
    pub fn area(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        u64::from(self.x2.abs_diff(self.x1)) * u64::from(self.y2.abs_diff(self.y1))
    }

    /// The pixels in both; `None` if there are none.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let both = Self {
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
            x2: self.x2.min(other.x2),
            y2: self.y2.min(other.y2),
        };
        (!both.is_empty()).then_some(both)
    }

    fn moved(&self, dx: i32, dy: i32) -> Self {
        Self {
            x1: self.x1.saturating_add(dx),
            y1: self.y1.saturating_add(dy),
            x2: self.x2.saturating_add(dx),
            y2: self.y2.saturating_add(dy),
        }
    }

    /// Adds the up to four rectangles of `self` outside `hole`.
    fn push_outside(&self, hole: &Self, out: &mut Vec<Self>) {
        let Some(cut) = self.intersect(hole) else {
            out.push(*self);
            return;
        };
        let around = [
            Self { y2: cut.y1, ..*self },
            Self { y1: cut.y2, ..*self },
            Self { x2: cut.x1, y1: cut.y1, y2: cut.y2, ..*self },
            Self { x1: cut.x2, y1: cut.y1, y2: cut.y2, ..*self },
        ];
        out.extend(around.into_iter().filter(|rect| !rect.is_empty()));
    }
}

/// A set of pixels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// None is empty, no two overlap.
    rects: Vec<Rect>,
}

impl Region {
    /// The pixels of one rectangle.
    #[must_use]
    pub fn from_rect(rect: Rect) -> Self {
        Self { rects: if rect.is_empty() { Vec::new() } else { vec![rect] } }
    }

    /// The pixels of rectangles that may overlap.
    #[must_use]
    pub fn from_rects(rects: impl IntoIterator<Item = Rect>) -> Self {
        let mut region = Self::default();
        for rect in rects {
            region.add(rect);
        }
        region
    }

    /// The pixels of rectangles of which no two overlap, as the server lists its regions.
    #[must_use]
    pub fn from_disjoint(rects: impl IntoIterator<Item = Rect>) -> Self {
        Self { rects: rects.into_iter().filter(|rect| !rect.is_empty()).collect() }
    }

    /// The rectangles; none is empty and no two overlap.
    #[must_use]
    pub fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// Number of pixels.
    #[must_use]
    pub fn area(&self) -> u64 {
        self.rects.iter().map(Rect::area).sum()
    }

    /// Takes the pixels of `rect` in.
    pub fn add(&mut self, rect: Rect) {
        if rect.is_empty() {
            return;
        }
        let mut new = vec![rect];
        for known in &self.rects {
            let mut rest = Vec::with_capacity(new.len());
            for piece in &new {
                piece.push_outside(known, &mut rest);
            }
            new = rest;
        }
        self.rects.append(&mut new);
    }

    /// Takes the pixels of `other` in.
    pub fn add_region(&mut self, other: &Self) {
        for rect in &other.rects {
            self.add(*rect);
        }
    }

    /// Takes the pixels of `rect` out.
    pub fn remove(&mut self, rect: &Rect) {
        let mut rest = Vec::with_capacity(self.rects.len());
        for known in &self.rects {
            known.push_outside(rect, &mut rest);
        }
        self.rects = rest;
    }

    /// Takes the pixels of `other` out.
    pub fn remove_region(&mut self, other: &Self) {
        for rect in &other.rects {
            self.remove(rect);
        }
    }

    /// The pixels in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut rects = Vec::new();
        for mine in &self.rects {
            rects.extend(other.rects.iter().filter_map(|theirs| mine.intersect(theirs)));
        }
        Self { rects }
    }

    /// The same pixels, `dx` to the right and `dy` further down.
    #[must_use]
    pub fn moved(&self, dx: i32, dy: i32) -> Self {
        Self { rects: self.rects.iter().map(|rect| rect.moved(dx, dy)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIDE: i32 = 24;

    /// The same set, pixel by pixel: too slow for use and too simple to be wrong.
    fn bitmap(inside: impl Fn(i32, i32) -> bool) -> Vec<bool> {
        (0..SIDE * SIDE).map(|n| inside(n % SIDE, n / SIDE)).collect()
    }

    fn holds(rect: &Rect, x: i32, y: i32) -> bool {
        (rect.x1..rect.x2).contains(&x) && (rect.y1..rect.y2).contains(&y)
    }

    fn pixels(region: &Region) -> Vec<bool> {
        for (n, rect) in region.rects().iter().enumerate() {
            assert!(!rect.is_empty());
            assert!(region.rects()[..n].iter().all(|other| rect.intersect(other).is_none()), "overlap in {region:?}");
        }
        bitmap(|x, y| region.rects().iter().any(|rect| holds(rect, x, y)))
    }

    fn any_rect() -> impl Strategy<Value = Rect> {
        (0..SIDE, 0..SIDE, 0..SIDE, 0..SIDE).prop_map(|(x, y, w, h)| Rect::new(x, y, w.min(SIDE - x), h.min(SIDE - y)))
    }

    fn any_rects() -> impl Strategy<Value = Vec<Rect>> {
        prop::collection::vec(any_rect(), 0..8)
    }

    proptest! {
        /// Union, difference and intersection agree with the same operations on bitmaps, and the area with the count.
        #[test]
        fn regions_agree_with_bitmaps(a in any_rects(), b in any_rects()) {
            let in_a = |x, y| a.iter().any(|rect| holds(rect, x, y));
            let in_b = |x, y| b.iter().any(|rect| holds(rect, x, y));
            let (left, right) = (Region::from_rects(a.clone()), Region::from_rects(b.clone()));

            let mut union = left.clone();
            union.add_region(&right);
            prop_assert_eq!(pixels(&union), bitmap(|x, y| in_a(x, y) || in_b(x, y)));
            let mut difference = left.clone();
            difference.remove_region(&right);
            prop_assert_eq!(pixels(&difference), bitmap(|x, y| in_a(x, y) && !in_b(x, y)));
            prop_assert_eq!(pixels(&left.intersect(&right)), bitmap(|x, y| in_a(x, y) && in_b(x, y)));
            prop_assert_eq!(left.area(), bitmap(in_a).into_iter().filter(|set| *set).count() as u64);
        }
    }

    /// A window half off the screen shows its other half only.
    #[test]
    fn what_is_off_the_screen_is_not_seen() {
        let screen = Region::from_rect(Rect::new(0, 0, 100, 100));
        let window = Region::from_rect(Rect::new(-50, 0, 100, 10));
        assert_eq!(window.intersect(&screen).area(), 500);
        assert_eq!(window.moved(200, 0).intersect(&screen).area(), 0);
    }

    /// The largest and oddest numbers the protocol can carry neither overflow nor give a negative area.
    #[test]
    fn extreme_numbers_are_harmless() {
        let huge = Rect::new(i32::MAX - 1, i32::MIN, i32::MAX, i32::MAX);
        assert_eq!(huge.area(), u64::from(i32::MAX.unsigned_abs()));
        assert_eq!(Rect::new(5, 5, -3, 10).area(), 0);
        assert!(Region::from_rect(Rect::new(0, 0, 0, 10)).rects().is_empty());
        assert_eq!(Region::from_rect(huge).moved(i32::MAX, i32::MAX).rects().len(), 1);
    }
}
