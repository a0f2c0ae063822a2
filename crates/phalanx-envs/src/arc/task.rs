//! Tasks, and the immutable pool that environments take them from.

use super::grid::Canvas;

/// A grid of any size, as a file has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Colours in row-major order.
    pub cells: Vec<i8>,
}

/// A question with its answer, if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The question.
    pub input: Grid,
    /// The answer.
    pub output: Option<Grid>,
}

/// Demonstrations of a rule, and questions about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name: the file's stem, after the group and a `/` if it has one.
    pub id: String,
    /// Demonstrations; each has an output.
    pub train: Vec<Pair>,
    /// Questions.
    pub test: Vec<Pair>,
}

impl Grid {
    /// Each cell from its row and column.
    pub fn from_fn(height: usize, width: usize, mut colour: impl FnMut(usize, usize) -> i8) -> Self {
        let mut cells = Vec::with_capacity(height * width);
        for r in 0..height {
            cells.extend((0..width).map(|c| colour(r, c)));
        }
        Self { height, width, cells }
    }

    /// The colour of a cell.
    pub fn get(&self, row: usize, column: usize) -> i8 {
        self.cells[row * self.width + column]
    }
}

impl Task {
    /// All its grids.
    pub fn grids(&self) -> impl Iterator<Item = &Grid> {
        self.train.iter().chain(&self.test).flat_map(|pair| std::iter::once(&pair.input).chain(&pair.output))
    }

    /// Height and width of the smallest canvas that holds every grid.
    pub fn extent(&self) -> (usize, usize) {
        self.grids().fold((0, 0), |(h, w), grid| (h.max(grid.height), w.max(grid.width)))
    }
}

/// A pair on a canvas.
#[derive(Clone, Debug)]
pub struct PooledPair<const N: usize, const W: usize> {
    /// The question.
    pub input: Canvas<N, W>,
    /// The answer; an empty canvas if it is not known.
    pub target: Canvas<N, W>,
    /// Whether the answer is known.
    pub has_target: bool,
    /// The task it belongs to.
    pub task: u32,
    /// Its place among the task's training or test pairs.
    pub index: u32,
}

/// Where the pairs of a task are in the pool.
#[derive(Clone, Debug)]
pub struct PooledTask {
    /// Its name.
    pub id: String,
    /// The first training pair; the test pairs follow the training pairs.
    pub first: u32,
    /// Number of training pairs.
    pub train: u32,
    /// Number of test pairs.
    pub test: u32,
}

/// All pairs of a selection of tasks, padded to one canvas. Masks are implied by the sizes.
#[derive(Clone, Debug)]
pub struct TaskPool<const N: usize, const W: usize> {
    /// The tasks.
    pub tasks: Vec<PooledTask>,
    /// The pairs of all tasks.
    pub pairs: Vec<PooledPair<N, W>>,
    /// A hash of all names and grids, by which a snapshot knows its tasks.
    pub fingerprint: u64,
}

impl<const N: usize, const W: usize> TaskPool<N, W> {
    /// Pads tasks to the canvas.
    pub fn new<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> phalanx_core::Result<Self> {
        let mut pool = Self { tasks: vec![], pairs: vec![], fingerprint: FNV_OFFSET };
        for task in tasks {
            let (height, width) = task.extent();
            if height > N || width > N {
                return Err(phalanx_core::Error::out_of_range(
                    format!("the largest grid of task {}", task.id),
                    format!("{height}x{width}"),
                    format!("at most {N}x{N}, the size of the canvas"),
                ));
            }
            pool.fingerprint = fold(pool.fingerprint, task);
            let (number, first) = (pool.tasks.len() as u32, pool.pairs.len() as u32);
            for (index, pair) in task.train.iter().enumerate().chain(task.test.iter().enumerate()) {
                pool.pairs.push(PooledPair {
                    input: padded(&pair.input),
                    target: pair.output.as_ref().map_or(Canvas::EMPTY, padded),
                    has_target: pair.output.is_some(),
                    task: number,
                    index: index as u32,
                });
            }
            let (train, test) = (task.train.len() as u32, task.test.len() as u32);
            pool.tasks.push(PooledTask { id: task.id.clone(), first, train, test });
        }
        if pool.tasks.is_empty() {
            return Err(phalanx_core::Error::out_of_range("the number of tasks", 0, "at least 1"));
        }
        Ok(pool)
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Folds a task into a hash (FNV-1a; a slip of the hand has to be noticed, not an attack).
fn fold(hash: u64, task: &Task) -> u64 {
    let mut hash = hash;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    task.id.bytes().chain([task.train.len() as u8, task.test.len() as u8]).for_each(&mut add);
    for pair in task.train.iter().chain(&task.test) {
        add(u8::from(pair.output.is_some()));
        for grid in std::iter::once(&pair.input).chain(&pair.output) {
            [grid.height as u8, grid.width as u8].into_iter().for_each(&mut add);
            grid.cells.iter().for_each(|cell| add(*cell as u8));
        }
    }
    hash
}

fn padded<const N: usize, const W: usize>(grid: &Grid) -> Canvas<N, W> {
    Canvas::from_fn(grid.height, grid.width, |r, c| grid.get(r, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_too_large_for_the_canvas_are_named() {
        let input = Grid::from_fn(3, 6, |_, _| 1);
        let pair = Pair { input: input.clone(), output: None };
        let task =
            Task { id: "wide".into(), train: vec![Pair { output: Some(input), ..pair.clone() }], test: vec![pair] };
        let message = TaskPool::<5, 1>::new([&task]).unwrap_err().to_string();
        assert_eq!(message, "the largest grid of task wide is 3x6, but must be at most 5x5, the size of the canvas");
        let pool = TaskPool::<10, 2>::new([&task, &task]).unwrap();
        assert_eq!(
            pool.pairs.iter().map(|p| (p.task, p.index, p.has_target)).collect::<Vec<_>>(),
            [(0, 0, true), (0, 0, false), (1, 0, true), (1, 0, false)]
        );
        assert_eq!((pool.pairs[1].target, pool.tasks[1].first), (Canvas::EMPTY, 2));
        assert!(TaskPool::<5, 1>::new([]).is_err());
        let mut other = task.clone();
        other.test[0].input.cells[4] = 2;
        let fingerprint = |task| TaskPool::<10, 2>::new([task]).unwrap().fingerprint;
        let same = task.clone();
        assert_eq!(fingerprint(&task), fingerprint(&same));
        assert_ne!(fingerprint(&task), fingerprint(&other));
    }
}
