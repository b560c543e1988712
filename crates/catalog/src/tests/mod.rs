mod laws;
mod rules;
