//! A list of named things in which a name is found without a walk over all of them.

use std::collections::HashMap;

/// So few names are compared one by one, which is faster than a hash.
const SCANNED_MAX: usize = 16;

/// Values under names that differ, in the order in which they came.
///
/// Clients send documents of a hundred thousand fields; looking each of them up in a plain list takes the square of that.
#[derive(Debug, Clone)]
pub struct ByName<N, T> {
    entries: Vec<(N, T)>,
    /// Where each name stands, once there are more than [`SCANNED_MAX`].
    places: HashMap<Box<[u8]>, usize>,
}

impl<N, T> Default for ByName<N, T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<N: AsRef<str>, T> ByName<N, T> {
    /// Where a name stands.
    pub fn place(&self, name: &[u8]) -> Option<usize> {
        if self.entries.len() > SCANNED_MAX {
            return self.places.get(name).copied();
        }
        let mut names = self.entries.iter().map(|(known, _)| known.as_ref());
        names.position(|known| known.as_bytes() == name)
    }

    /// The value under a name.
    pub fn get(&self, name: &[u8]) -> Option<&T> {
        self.place(name).map(|place| &self.entries[place].1)
    }

    /// The value under a name, to be changed.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut T> {
        self.place(name).map(|place| &mut self.entries[place].1)
    }

    /// Puts a value under a name that is not there yet behind all others.
    pub fn push(&mut self, name: N, value: T) {
        self.entries.push((name, value));
        self.note_places();
    }

    /// Puts a value under a name that is not there yet before all others.
    pub fn push_front(&mut self, name: N, value: T) {
        self.entries.insert(0, (name, value));
        self.places.clear();
        self.note_places();
    }

    /// Puts a value under a name, in the place of the one that is there.
    pub fn set(&mut self, name: N, value: T) {
        match self.get_mut(name.as_ref().as_bytes()) {
            Some(old) => *old = value,
            None => self.push(name, value),
        }
    }

    fn note_places(&mut self) {
        if self.entries.len() <= SCANNED_MAX {
            return;
        }
        for place in self.places.len()..self.entries.len() {
            let name = self.entries[place].0.as_ref().as_bytes();
            self.places.insert(name.into(), place);
        }
    }
}

impl<N, T> ByName<N, T> {
    /// The names and values, in order.
    pub fn entries(&self) -> &[(N, T)] {
        &self.entries
    }

    /// The names and values, in order.
    pub fn into_entries(self) -> Vec<(N, T)> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_stand() {
        let mut list = ByName::default();
        for number in 0..50_usize {
            assert_eq!(list.place(number.to_string().as_bytes()), None);
            list.push(number.to_string(), number);
            assert_eq!(list.place(number.to_string().as_bytes()), Some(number));
            assert_eq!(list.place(b"0"), Some(0));
        }
        list.set("7".to_owned(), 700);
        list.set("x".to_owned(), 50);
        list.push_front("first".to_owned(), 99);
        assert_eq!(list.get(b"first"), Some(&99));
        assert_eq!(list.get(b"7"), Some(&700));
        assert_eq!(list.place(b"x"), Some(51));
        assert_eq!(list.entries().len(), 52);
    }

    #[test]
    fn a_million_names_are_listed() {
        let mut list = ByName::default();
        for number in (0..1_000_000).rev() {
            list.set(number.to_string(), number);
        }
        assert_eq!(list.get(b"0"), Some(&0));
        assert_eq!(list.into_entries().len(), 1_000_000);
    }
}
