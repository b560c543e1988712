//! Any text is a valid configuration or disk model, or gives an error with its position.
//!
//! The first byte selects the kind of text.

use std::path::Path;

use server::config::layers;

pub fn examine(data: &[u8]) {
    let [kind, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match kind % 3 {
        0 => {
            let settings = layers::from_yaml(Path::new("messina.yaml"), text);
            let applied = settings.and_then(layers::apply);
            if let Err(error) = applied {
                assert!(!error.to_string().is_empty());
            }
        }
        1 => {
            let variables = text.lines().filter_map(|line| line.split_once('='));
            let variables: Vec<_> =
                variables.map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let _ = layers::apply(layers::from_environment(&variables));
        }
        _ => {
            let Ok(disks) = iosched::properties::parse(text) else { return };
            assert_eq!(iosched::properties::parse(&iosched::properties::write(&disks)).as_ref(), Ok(&disks));
        }
    }
}
