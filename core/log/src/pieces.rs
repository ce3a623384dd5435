//! Bytes of a segment as they lie in memory: usually one slice, several where its seglets are not adjacent.

/// A run of bytes, in order. Cheap to copy; yields slices that are not empty.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    first: &'a [u8],
    rest: Rest<'a>,
}

/// The bytes after the first slice: `from..to` of the segment that lies in `seglets`.
#[derive(Clone, Copy, Debug)]
struct Rest<'a> {
    region: &'a [u8],
    seglets: &'a [u32],
    seglet_shift: u32,
    from: u32,
    to: u32,
}

impl<'a> Pieces<'a> {
    #[inline]
    pub(crate) fn one(bytes: &'a [u8]) -> Pieces<'a> {
        Pieces { first: bytes, rest: Rest { region: &[], seglets: &[], seglet_shift: 0, from: 0, to: 0 } }
    }

    /// Bytes `from..to` of the segment that lies in `seglets` of `region`.
    pub(crate) fn of(
        region: &'a [u8],
        seglets: &'a [u32],
        seglet_shift: u32,
        from: u32,
        to: u32,
    ) -> Pieces<'a> {
        assert!(from <= to);
        let mut rest = Rest { region, seglets, seglet_shift, from, to };
        Pieces { first: rest.take_run(), rest }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.first.len() + (self.rest.to - self.rest.from) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// All bytes, if they lie in one piece.
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        (self.rest.from == self.rest.to).then_some(self.first)
    }

    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        self.into_iter().for_each(|piece| out.extend_from_slice(piece));
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.append_to(&mut out);
        out
    }

    #[inline]
    pub fn is_equal(&self, bytes: &[u8]) -> bool {
        if let Some(all) = self.contiguous() {
            return all == bytes;
        }
        let mut rest = bytes;
        self.len() == bytes.len()
            && self.into_iter().all(|piece| {
                let (head, tail) = rest.split_at(piece.len());
                rest = tail;
                piece == head
            })
    }
}

impl<'a> Rest<'a> {
    /// Takes the longest contiguous run of bytes from the front.
    fn take_run(&mut self) -> &'a [u8] {
        if self.from == self.to {
            return &[];
        }
        let seglet_bytes = 1_u64 << self.seglet_shift;
        let within = u64::from(self.from) & (seglet_bytes - 1);
        let mut at = (self.from >> self.seglet_shift) as usize;
        let start = (u64::from(self.seglets[at]) << self.seglet_shift) + within;
        let wanted = u64::from(self.to - self.from);
        let mut run = seglet_bytes - within;
        while run < wanted && self.seglets[at + 1] == self.seglets[at] + 1 {
            at += 1;
            run += seglet_bytes;
        }
        let run = run.min(wanted);
        self.from += run as u32;
        &self.region[start as usize..(start + run) as usize]
    }
}

impl<'a> IntoIterator for &Pieces<'a> {
    type Item = &'a [u8];
    type IntoIter = PieceIter<'a>;

    fn into_iter(self) -> PieceIter<'a> {
        PieceIter { pieces: *self }
    }
}

/// The slices of `Pieces`, in order.
#[derive(Clone, Debug)]
pub struct PieceIter<'a> {
    pieces: Pieces<'a>,
}

impl<'a> Iterator for PieceIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let piece = self.pieces.first;
        self.pieces.first = self.pieces.rest.take_run();
        (!piece.is_empty()).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_come_as_one_slice_and_others_apart() {
        let region: Vec<u8> = (0..32).collect();
        let seglets = [2, 3, 0, 7];
        let pieces = Pieces::of(&region, &seglets, 2, 1, 14);
        let slices: Vec<&[u8]> = pieces.into_iter().collect();
        assert_eq!(slices, [&region[9..16], &region[0..4], &region[28..30]]);
        assert_eq!(pieces.len(), 13);
        assert_eq!(pieces.contiguous(), None);
        assert!(pieces.is_equal(&pieces.to_vec()));
        assert!(!pieces.is_equal(&region[9..22]));
        assert_eq!(Pieces::of(&region, &seglets, 2, 0, 8).contiguous(), Some(&region[8..16]));
        assert_eq!(Pieces::of(&region, &seglets, 2, 16, 16).contiguous(), Some(&[][..]));
    }
}
