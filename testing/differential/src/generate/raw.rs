//! Bytes that no client library sends: inline commands, odd frames, broken ones.

use super::Choice;

/// Whole commands, or bytes that end the connection with an error. A command behind them shows the result.
const RAW: [&[u8]; 31] = [
    b"PING\r\n",
    b"PING\n",
    b"\r\n\r\nPING\r\n",
    b"   ECHO    two   \r\n",
    b"ECHO \"quoted \\x41\\n\\\"\"\r\n",
    b"ECHO 'single \\' \\n'\r\n",
    b"ECHO \"unbalanced\r\n",
    b"ECHO \"a\"b\r\n",
    b"ECHO ''\r\n",
    b"GET\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*-5\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nping\r\n",
    b"*1\r\n:1\r\n",
    b"*1\r\nPING\r\n",
    b"*abc\r\n",
    b"*1048577\r\n",
    b"*2147483648\r\n",
    b"*99999999999999999999\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$abc\r\n",
    b"*1\r\n$9223372036854775807\r\n",
    b"*1\r\n$536870913\r\n",
    b"*01\r\n$4\r\nPING\r\n",
    b"*+1\r\n$4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"NOSUCH inline command\r\n",
    b"*1\r\n$4\r\nPING--",
];

impl Choice<'_> {
    pub fn raw(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.rng.between(1, 2) {
            bytes.extend_from_slice(self.rng.pick(&RAW).copied().unwrap_or(b"PING\r\n"));
        }
        bytes
    }
}
