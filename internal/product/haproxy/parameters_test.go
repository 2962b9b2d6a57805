package haproxy

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

func TestReadAtol(t *testing.T) {
	for text, want := range map[string]any{"100": 100.0, "1k": 1.0, "10x": 10.0, "0": 0.0, "x": nil, "-1": nil, "": nil, "99999999999": nil} {
		if got, err := readAtol(text); got != want || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

// The real HAProxy takes the same numbers for maxconn: what it runs with, by its stats
// socket.
func TestMaxconnAsHAProxy(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	for text, want := range map[string]string{"100": "100", "70x": "70", "1k": "1"} {
		if got := runsWith(t, text); got != want {
			t.Errorf("maxconn %s: HAProxy runs with %s", text, got)
		}
		if got, err := readAtol(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("maxconn %s: read as %v, %v", text, got, err)
		}
	}
	if got := runsWith(t, "x"); got == "0" || got == "" {
		t.Errorf("maxconn x: HAProxy runs with %s, not with what its open files allow", got)
	}
}

// runsWith is the Maxconn of a HAProxy that is started with a text for it.
func runsWith(t *testing.T, maxconn string) string {
	t.Helper()
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "haproxy.cfg"), filepath.Join(dir, "s")
	text := "global\n maxconn " + maxconn + "\n stats socket " + socket + "\ndefaults\n timeout connect 5s\n timeout client 5s\n timeout server 5s\nfrontend f\n bind 127.0.0.1:18099\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "haproxy", "-db", "-f", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		info, err := askSocket(t, socket)
		if err != nil {
			continue // it is starting
		}
		for line := range strings.Lines(info) {
			if v, ok := strings.CutPrefix(line, "Maxconn: "); ok {
				return strings.TrimSpace(v)
			}
		}
	}
	t.Fatalf("maxconn %s: HAProxy does not answer", maxconn)
	return ""
}

func askSocket(t *testing.T, socket string) (string, error) {
	t.Helper()
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte("show info\n")); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}
