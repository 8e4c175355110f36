// SPDX-License-Identifier: MIT OR Apache-2.0

// echo: a server with a goroutine for each connection, which accepts on descriptor 3; for bench/ito/io.
package main

import (
	"net"
	"os"
)

func serve(c net.Conn) {
	var data [1024]byte
	for {
		n, err := c.Read(data[:])
		if err != nil {
			return
		}
		if _, err := c.Write(data[:n]); err != nil {
			return
		}
	}
}

func main() {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go serve(c)
	}
}
