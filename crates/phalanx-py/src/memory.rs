//! Memory that NumPy arrays borrow: aligned for vector code, and used again when the last array over it is gone.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, npy_intp};
use numpy::{Element, PyArrayDescrMethods};
use pyo3::prelude::*;

/// What JAX needs to share memory instead of copying it, and the size of a cache line.
pub(crate) const ALIGNMENT: usize = 64;

/// A piece of memory, all zeros when it is new.
pub(crate) struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is plain memory with one owner; whoever writes into it makes sure that nobody else does.
unsafe impl Send for Block {}
// SAFETY: as above; a shared block only tells its address.
unsafe impl Sync for Block {}

impl Block {
    pub(crate) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).expect("an array's size");
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Blocks of one size that nobody uses at the moment.
pub(crate) struct Shelf {
    bytes: usize,
    free: Mutex<Vec<Block>>,
}

/// Blocks that are kept for later: a loop needs two, the one it reads and the one it fills.
const KEPT: usize = 4;

impl Shelf {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, free: Mutex::new(Vec::with_capacity(KEPT)) })
    }

    pub(crate) fn take(&self) -> Block {
        let used = self.free.lock().ok().and_then(|mut free| free.pop());
        used.unwrap_or_else(|| Block::new(self.bytes))
    }

    fn put(&self, block: Block) {
        if let Ok(mut free) = self.free.lock()
            && free.len() < KEPT
        {
            free.push(block);
        }
    }
}

/// The owner of a block as Python sees it: the base of all arrays over it.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct Keeper {
    block: ManuallyDrop<Block>,
    shelf: Arc<Shelf>,
}

impl Keeper {
    pub(crate) fn new<'py>(py: Python<'py>, block: Block, shelf: &Arc<Shelf>) -> PyResult<Bound<'py, Self>> {
        Bound::new(py, Self { block: ManuallyDrop::new(block), shelf: Arc::clone(shelf) })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.block.start()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: the block is taken once, here, and not touched again.
        self.shelf.put(unsafe { ManuallyDrop::take(&mut self.block) });
    }
}

/// A writable array over a part of a keeper's block, from a byte on.
pub(crate) fn array<'py, T: Element>(
    keeper: &Bound<'py, Keeper>,
    offset: usize,
    shape: &[npy_intp],
) -> PyResult<Bound<'py, PyAny>> {
    let py = keeper.py();
    let block = &keeper.get().block;
    let bytes = size_of::<T>() * shape.iter().product::<npy_intp>() as usize;
    assert!(offset.is_multiple_of(ALIGNMENT) && offset + bytes <= block.layout.size(), "an array within its block");
    // SAFETY: the data lies within the block by the assertion, is aligned, and lives as long as the keeper, which becomes
    // the array's base. NumPy takes over the references to the type description and to the base.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            T::get_dtype(py).into_dtype_ptr(),
            shape.len() as i32,
            shape.as_ptr().cast_mut(),
            std::ptr::null_mut(),
            block.start().add(offset).cast(),
            npyffi::flags::NPY_ARRAY_CARRAY,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), keeper.clone().into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Where the next array can begin.
pub(crate) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}
