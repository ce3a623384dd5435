//! Free seglets, given out so that a segment tends to lie in one piece.
//!
//! The region is divided into blocks of as many seglets as a segment has. A new segment prefers a block that is
//! wholly free. A segment that grows takes the seglet after its last one. If that is not free, it takes one in a block
//! that is already in use in part, so that free blocks stay whole.
//!
//! Contiguity is likely, and never guaranteed.

pub(crate) struct FreeSeglets {
    /// A bit per seglet, set while it is free.
    words: Vec<u64>,
    /// Free seglets of each block; the last block may be shorter than the others.
    block_free: Vec<u32>,
    block_seglets: u32,
    seglet_count: u32,
    free_count: u32,
    /// The block at which the next search begins, so that searches are spread over all blocks.
    next_block: usize,
    /// The first seglet after all that were ever given out.
    untaken: u32,
}

impl FreeSeglets {
    pub(crate) fn new(seglet_count: u32, block_seglets: u32) -> FreeSeglets {
        assert!(block_seglets > 0);
        let mut free = FreeSeglets {
            words: vec![0; seglet_count.div_ceil(64) as usize],
            block_free: vec![0; seglet_count.div_ceil(block_seglets) as usize],
            block_seglets,
            seglet_count,
            free_count: 0,
            next_block: 0,
            untaken: 0,
        };
        (0..seglet_count).for_each(|seglet| free.give_back(seglet));
        free
    }

    pub(crate) fn count(&self) -> u32 {
        self.free_count
    }

    /// The first seglet after all that were ever given out.
    pub(crate) fn untaken(&self) -> u32 {
        self.untaken
    }

    pub(crate) fn is_free(&self, seglet: u32) -> bool {
        self.words[seglet as usize / 64] >> (seglet % 64) & 1 == 1
    }

    /// Takes a seglet for a segment whose last seglet is `after`; `None` for a new segment.
    pub(crate) fn take(&mut self, after: Option<u32>) -> Option<u32> {
        if self.free_count == 0 {
            return None;
        }
        let adjacent =
            after.map(|last| last + 1).filter(|next| *next < self.seglet_count && self.is_free(*next));
        let seglet = adjacent.unwrap_or_else(|| self.search(after.is_none()));
        self.words[seglet as usize / 64] &= !(1 << (seglet % 64));
        self.block_free[(seglet / self.block_seglets) as usize] -= 1;
        self.free_count -= 1;
        self.untaken = self.untaken.max(seglet + 1);
        Some(seglet)
    }

    pub(crate) fn give_back(&mut self, seglet: u32) {
        assert!(seglet < self.seglet_count);
        assert!(!self.is_free(seglet));
        self.words[seglet as usize / 64] |= 1 << (seglet % 64);
        self.block_free[(seglet / self.block_seglets) as usize] += 1;
        self.free_count += 1;
    }

    /// The first free seglet of the next block that is wholly free (`wants_whole`) or in use in part (otherwise). If
    /// there is no such block, the first free seglet of the next block that has one. At least one seglet is free.
    fn search(&mut self, wants_whole: bool) -> u32 {
        let count = self.block_free.len();
        let from = self.next_block;
        let blocks = (0..count).map(|i| if from + i < count { from + i } else { from + i - count });
        let is_whole = |block: usize| self.block_free[block] == self.block_len(block);
        let mut with_free = blocks.filter(|block| self.block_free[*block] > 0);
        let block = with_free
            .clone()
            .find(|block| is_whole(*block) == wants_whole)
            .or_else(|| with_free.next())
            .expect("a free seglet lies in a block that has one");
        self.next_block = block;
        let start = block as u32 * self.block_seglets;
        (start..start + self.block_len(block))
            .find(|seglet| self.is_free(*seglet))
            .expect("the block's count says so")
    }

    fn block_len(&self, block: usize) -> u32 {
        self.block_seglets.min(self.seglet_count - block as u32 * self.block_seglets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Rng;

    #[test]
    fn segments_get_ascending_runs_while_memory_is_whole() {
        let mut free = FreeSeglets::new(16, 4);
        let first = free.take(None).unwrap();
        let other = free.take(None).unwrap();
        assert_ne!(first / 4, other / 4);
        let mut last = first;
        for _ in 0..3 {
            let next = free.take(Some(last)).unwrap();
            assert_eq!(next, last + 1);
            last = next;
        }
        // The run has ended: a block in use is filled before a free block is taken.
        assert_eq!(free.take(Some(last)).unwrap() / 4, other / 4);
    }

    #[test]
    fn nothing_behind_what_is_untaken_was_given_out() {
        let mut free = FreeSeglets::new(16, 4);
        assert_eq!(free.untaken(), 0);
        let (first, other) = (free.take(None).unwrap(), free.take(None).unwrap());
        assert_eq!(free.untaken(), first.max(other) + 1);
        free.give_back(other);
        assert_eq!(free.untaken(), first.max(other) + 1);
    }

    #[test]
    fn every_seglet_is_given_out_once() {
        let mut rng = Rng::new(5);
        let mut free = FreeSeglets::new(101, 8);
        let mut taken: Vec<u32> = Vec::new();
        for _ in 0..5000 {
            if rng.chance(1, 2) {
                let after = rng.pick(&taken).copied().filter(|_| rng.chance(3, 4));
                match free.take(after) {
                    Some(seglet) => {
                        assert!(!taken.contains(&seglet));
                        taken.push(seglet);
                    }
                    None => assert_eq!(taken.len(), 101),
                }
            } else if !taken.is_empty() {
                let at = rng.below(taken.len() as u64) as usize;
                free.give_back(taken.swap_remove(at));
            }
            assert_eq!(free.count() as usize, 101 - taken.len());
        }
    }
}
