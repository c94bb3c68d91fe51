//! The evaluations: each has its data, its questions and its published figures.

pub mod entities;
pub mod indexing;
pub mod queries;
pub mod restaurants;
pub mod taxi;
pub mod timeseries;
pub mod weather;
