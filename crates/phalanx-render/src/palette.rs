//! At most 255 colours for an animation, and a place for "unchanged".
//!
//! With 255 colours or fewer, all survive exactly. With more (anti-aliased edges), the most frequent survive
//! exactly, which are the flat ones, and the rest share the remaining entries by median cut.

use std::collections::HashMap;

type Rgb = [u8; 3];

/// Entries of a full palette; one of the format's 256 is left for [`Palette::unchanged`].
const SIZE: usize = 255;
/// Of which so many go to the most frequent colours.
const EXACT: usize = 144;

/// How often each colour was seen.
#[derive(Default)]
pub(crate) struct Census(HashMap<Rgb, u64>);

impl Census {
    pub(crate) fn add(&mut self, pixels: &[Rgb]) {
        // Pictures are mostly runs: one look-up for each.
        for run in pixels.chunk_by(|a, b| a == b) {
            *self.0.entry(run[0]).or_default() += run.len() as u64;
        }
    }

    pub(crate) fn palette(self) -> Palette {
        let mut seen: Vec<(Rgb, u64)> = self.0.into_iter().collect();
        // The colour breaks ties, so that the same frames give the same file.
        seen.sort_unstable_by_key(|(colour, count)| (std::cmp::Reverse(*count), *colour));
        let exact = if seen.len() <= SIZE { seen.len() } else { EXACT };
        let rest = seen.split_off(exact);
        let mut entries: Vec<Rgb> = seen.into_iter().map(|(colour, _)| colour).collect();
        entries.extend(median_cut(rest, SIZE - exact));
        let unchanged = entries.len() as u8;
        entries.push([0; 3]);
        let known =
            entries[..usize::from(unchanged)].iter().enumerate().map(|(i, colour)| (*colour, i as u8)).collect();
        Palette { entries, known, unchanged }
    }
}

/// Colours by index.
pub(crate) struct Palette {
    entries: Vec<Rgb>,
    known: HashMap<Rgb, u8>,
    unchanged: u8,
}

impl Palette {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.entries.as_flattened()
    }

    /// The index that stands for no colour.
    pub(crate) fn unchanged(&self) -> u8 {
        self.unchanged
    }

    /// The index of the nearest entry.
    pub(crate) fn index(&mut self, colour: Rgb) -> u8 {
        let entries = &self.entries[..usize::from(self.unchanged)];
        *self.known.entry(colour).or_insert_with(|| {
            let distance =
                |entry: &Rgb| -> u32 { entry.iter().zip(colour).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum() };
            let nearest = (0_u8..=255).zip(entries).min_by_key(|(_, entry)| distance(entry));
            nearest.map_or(0, |(index, _)| index)
        })
    }
}

/// The means of at most `count` boxes of colours: the box with the widest spread of pixels is cut in two halves of
/// equal weight until there are enough.
fn median_cut(colours: Vec<(Rgb, u64)>, count: usize) -> Vec<Rgb> {
    let mut boxes = if colours.is_empty() { vec![] } else { vec![colours] };
    while boxes.len() < count {
        let spread = |colours: &[(Rgb, u64)]| -> (u64, usize) {
            let range = |channel: usize| {
                let values = colours.iter().map(|(colour, _)| colour[channel]);
                u64::from(values.clone().max().unwrap_or(0) - values.min().unwrap_or(0))
            };
            (0..3).map(|channel| (range(channel), channel)).max().unwrap_or((0, 0))
        };
        let weight = |colours: &[(Rgb, u64)]| colours.iter().map(|(_, count)| count).sum::<u64>();
        let score = |colours: &Vec<(Rgb, u64)>| spread(colours).0.pow(2) * weight(colours).isqrt();
        let Some(widest) = (0..boxes.len()).max_by_key(|i| score(&boxes[*i])) else { break };
        let (range, channel) = spread(&boxes[widest]);
        if range == 0 {
            break;
        }
        let mut lower = boxes.swap_remove(widest);
        lower.sort_unstable_by_key(|(colour, _)| (colour[channel], *colour));
        let (half, mut sum) = (weight(&lower) / 2, 0);
        let middle = lower.iter().position(|(_, count)| {
            sum += count;
            sum > half
        });
        let upper = lower.split_off(middle.unwrap_or(0).clamp(1, lower.len() - 1));
        boxes.extend([lower, upper]);
    }
    let mean = |colours: &Vec<(Rgb, u64)>| -> Rgb {
        let total: u64 = colours.iter().map(|(_, count)| count).sum();
        std::array::from_fn(|channel| {
            let sum: u64 = colours.iter().map(|(colour, count)| u64::from(colour[channel]) * count).sum();
            ((sum + total / 2) / total) as u8
        })
    };
    boxes.iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_colours_are_exact_and_the_others_near() {
        let mut census = Census::default();
        census.add(&[[1, 2, 3]; 50_000]);
        census.add(&[[200, 2, 3]; 10_000]);
        let all: Vec<Rgb> = (0..4096_u32).map(|i| [i >> 8, i >> 4, i].map(|v| (v % 16 * 17) as u8)).collect();
        census.add(&all);
        let mut palette = census.palette();
        assert!(palette.entries.len() <= 256);
        let mut found = |colour| palette.index(colour);
        let indices = [[1, 2, 3], [200, 2, 3]].map(&mut found);
        assert_eq!(indices.map(|i| palette.entries[usize::from(i)]), [[1, 2, 3], [200, 2, 3]]);
        let worst = all.iter().map(|colour| {
            let index = palette.index(*colour);
            let entry = palette.entries[usize::from(index)];
            entry.iter().zip(colour).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
        });
        assert!(worst.max().unwrap() <= 60);
    }
}
