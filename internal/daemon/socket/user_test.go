package socket

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// clientVariable makes this test program a client that asks the socket named in
// it.
const clientVariable = "FETTLE_TEST_SOCKET_CLIENT"

func TestMain(m *testing.M) {
	path := os.Getenv(clientVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	// A refused client is answered without being listened to.
	_, _ = conn.Write([]byte(`{"jsonrpc":"2.0","method":"active_profile","id":1}`))
	conn.(*net.UnixConn).CloseWrite()
	io.Copy(os.Stdout, conn)
}

// asUser asks the socket from a process of another user.
func asUser(t *testing.T, path string, uid, gid uint32) string {
	t.Helper()
	self, err := os.Open("/proc/self/exe") // the path may be closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	c := exec.Command("/proc/self/fd/3")
	c.ExtraFiles = []*os.File{self}
	c.Env = []string{clientVariable + "=" + path}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}
