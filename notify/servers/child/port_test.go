package child_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bellhopd/bellhop/notify/servers/child"
)

// held is how many ports a process of TestHoldPort holds: enough for two processes
// that do not respect each other to choose the same one.
const held = 2000

// TestMain is also the other process of TestHoldPort.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_HOLDS") == "" {
		os.Exit(m.Run())
	}
	for range held {
		port, err := child.HoldPort()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(port)
	}
	fmt.Println("all")
	_, _ = os.Stdin.Read(make([]byte, 1)) // hold them until the parent closes the pipe
}

// No port is held twice, by this process or another, though nobody listens there.
func TestHoldPort(t *testing.T) {
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "CHILD_HOLDS=1")
	other.Stderr = os.Stderr
	hold, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	taken := make(map[int]bool)
	for range held {
		var port int
		if _, err := fmt.Fscanln(out, &port); err != nil {
			t.Fatal(err)
		}
		taken[port] = true
	}
	for range held {
		port, err := child.HoldPort()
		if err != nil {
			t.Fatal(err)
		}
		if taken[port] {
			t.Fatalf("port %d is held twice", port)
		}
		taken[port] = true
	}
	hold.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// A server can listen at a held port again and again, and the port is none that the
// kernel chooses by itself.
func TestListenAtHeldPort(t *testing.T) {
	port, err := child.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	given, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err) // not Linux
	}
	if first, err := strconv.Atoi(strings.Fields(string(given))[0]); err != nil || port >= first {
		t.Errorf("port %d is held, but the kernel chooses ports from %s", port, given)
	}
}

// A port that is held is free at once: no child that is being started has a copy of what looked whether it is free.
func TestHeldPortIsFree(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	defer starting.Wait()
	defer stop()
	for range 4 {
		starting.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 300 {
		port, err := child.HoldPort()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
