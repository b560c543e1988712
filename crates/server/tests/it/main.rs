//! The program itself, as its users meet it: started, asked, stopped, started again.

mod process;
mod serve;
