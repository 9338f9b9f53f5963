//! Placement: pure maths over tables, keys and grids. No I/O, no clock, no randomness.

#![no_std]

extern crate alloc;

pub mod tables;
