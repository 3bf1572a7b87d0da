use std::process::{Child, Command};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn start() -> Server {
    Server(
        Command::new(env!("CARGO_BIN_EXE_accounts"))
            .env("DATABASE_URL", "memory:")
            .env("JWT_SECRET", "secret")
            .spawn()
            .expect("the server starts"),
    )
}

#[test]
fn login_without_a_body_is_a_bad_request() {
    let _server = start();
    let reply = ureq::post("http://127.0.0.1:8080/login").call();
    assert_eq!(reply.unwrap_err().into_response().unwrap().status(), 400);
}
