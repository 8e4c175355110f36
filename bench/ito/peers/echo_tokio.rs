// SPDX-License-Identifier: MIT OR Apache-2.0
//! echo: a server with a task of tokio for each connection, which accepts on descriptor 3; for bench/ito/io. It needs the crate tokio with
//! its features rt-multi-thread, net, io-util.
use std::os::fd::FromRawFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn serve(mut c: tokio::net::TcpStream) -> std::io::Result<()> {
    let mut data = [0; 1024];
    loop {
        let n = c.read(&mut data).await?;
        if n == 0 {
            return Ok(());
        }
        c.write_all(&data[..n]).await?;
    }
}

async fn accept() -> std::io::Result<()> {
    // SAFETY: whoever starts this program has a listener there, and nothing else here uses the number.
    let listener = unsafe { std::net::TcpListener::from_raw_fd(3) };
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (c, _) = listener.accept().await?;
        tokio::spawn(serve(c));
    }
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { tokio::spawn(accept()).await? })
}
