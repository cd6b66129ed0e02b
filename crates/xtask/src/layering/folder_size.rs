//! Check of the number of source files in a folder.

use std::error::Error;
use std::fs;
use std::path::Path;

/// Maximum number of Rust or Python files that lie directly in one folder.
pub const MAX_FILES: usize = 15;

/// Adds a violation for each folder at or below `folder` that has more than [`MAX_FILES`] source files.
pub fn check(folder: &Path, violations: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut files = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            check(&path, violations)?;
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            files += 1;
        }
    }
    if files > MAX_FILES {
        violations.push(format!(
            "{}: {files} source files in one folder; move those of one concept to a subfolder, at most {MAX_FILES} may \
             stay",
            folder.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_one_file_too_many_is_named() {
        let folder = std::env::temp_dir().join(format!("grete-folder-size-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).expect("a temporary folder");
        for number in 0..MAX_FILES {
            fs::write(folder.join(format!("{number}.rs")), "").expect("room");
            fs::write(folder.join(format!("inner/{number}.py")), "").expect("room");
        }
        fs::write(folder.join("README.md"), "").expect("room");
        let mut violations = Vec::new();
        check(&folder, &mut violations).expect("readable");
        assert_eq!(violations, Vec::<String>::new());
        fs::write(folder.join("inner/more.py"), "").expect("room");
        check(&folder, &mut violations).expect("readable");
        fs::remove_dir_all(&folder).expect("removable");
        assert!(violations.len() == 1 && violations[0].contains("inner: 16 source files"), "{violations:?}");
    }
}
