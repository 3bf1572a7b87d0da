//! Rows of the table `users`.

use std::collections::HashMap;

use crate::models::user::User;

#[derive(Default)]
pub struct UserRepo {
    rows: HashMap<u64, User>,
    next_id: u64,
}

impl UserRepo {
    pub fn insert(&mut self, mut user: User) -> u64 {
        self.next_id += 1;
        user.id = self.next_id;
        self.rows.insert(user.id, user);
        self.next_id
    }

    pub fn by_id(&self, id: u64) -> Option<User> {
        self.rows.get(&id).cloned()
    }

    /// SELECT * FROM users WHERE lower(email) = lower($1) LIMIT 1
    pub fn by_email(&self, email: &str) -> Option<User> {
        self.rows
            .values()
            .find(|user| user.email.eq_ignore_ascii_case(email))
            .cloned()
    }

    pub fn deactivate(&mut self, id: u64) -> bool {
        match self.rows.get_mut(&id) {
            Some(user) => {
                user.active = false;
                true
            }
            None => false,
        }
    }
}
