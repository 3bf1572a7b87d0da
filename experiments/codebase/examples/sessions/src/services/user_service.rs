use sqlx::PgPool;

use crate::database::user_repo;
use crate::models::user::{NewUser, User};

pub struct UserService {
    pool: PgPool,
}

impl UserService {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    pub async fn sign_up(&self, new: NewUser) -> anyhow::Result<User> {
        let hash = hash_password(&new.password)?;
        Ok(user_repo::create(&self.pool, &new, &hash).await?)
    }

    /// Looks a user up by address, whatever its case.
    pub async fn find_by_email(&self, email: &str) -> anyhow::Result<Option<User>> {
        Ok(user_repo::find_by_email(&self.pool, &canonical(email)).await?)
    }
}

fn canonical(email: &str) -> String {
    email.trim().to_string()
}

fn hash_password(password: &str) -> anyhow::Result<String> {
    use argon2::password_hash::{rand_core::OsRng, PasswordHasher, SaltString};
    let salt = SaltString::generate(&mut OsRng);
    argon2::Argon2::default()
        .hash_password(password.as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| anyhow::anyhow!(error.to_string()))
}
