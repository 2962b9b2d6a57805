package host

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An archive replays recorded answers without secrets and without asking; other
// questions are not recorded.
func TestAsk(t *testing.T) {
	ctx := context.Background()
	text := "version\t15\nsetting\tPGPASSWORD=hunter2 cp\n-- file /x --\nlast"
	ask := func(_ context.Context, live *Host) ([]byte, error) {
		if !live.Live {
			t.Error("the machine itself is not handed in")
		}
		return []byte(text), nil
	}
	nobody := func(context.Context, *Host) ([]byte, error) {
		t.Error("somebody was asked")
		return nil, nil
	}
	recorder, recording := Record(Live())
	got, err := recorder.Query(ctx, `say "it"`, ask)
	if err != nil || strings.Contains(string(got), "hunter2") || !strings.Contains(string(got), "version\t15\n") {
		t.Errorf("%q, %v", got, err)
	}
	refused := errors.New("refused")
	if _, err := recorder.Query(ctx, "other", func(context.Context, *Host) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	var b bytes.Buffer
	if _, err := recording.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	archive, err := ParseArchive("archive", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := archive.Query(ctx, `say "it"`, nobody); err != nil || !bytes.Equal(again, got) {
		t.Errorf("%q, %v; want %q", again, err, got)
	}
	copied, err := Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Host{archive, copied, Mounted(t.TempDir()), {}} {
		if _, err := h.Query(ctx, "other", nobody); !Unknown(err) {
			t.Errorf("%s: %v", h.Name, err)
		}
	}
}

// The peer sees the other user; this process keeps its own.
func TestDialUnixAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root is somebody else; connecting as oneself")
	}
	dir, err := os.MkdirTemp("/tmp", "fettle-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	users := []int{-1, os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, 65534, 1)
	}
	for _, uid := range users {
		for range 20 {
			c, err := DialUnixAs(context.Background(), path, uid)
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := s.(*net.UnixConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			want := uint32(uid)
			if uid < 0 {
				want = uint32(os.Geteuid())
			}
			if err := raw.Control(func(fd uintptr) {
				cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
				if err != nil || cred.Uid != want {
					t.Errorf("it sees %v, want user %d (%v)", cred, want, err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			c.Close()
			s.Close()
		}
	}
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		if b, err := os.ReadFile(f); err == nil && os.Geteuid() == 0 && !strings.Contains(string(b), "\nUid:\t0\t0\t0\t0\n") {
			t.Errorf("a thread stays somebody else:\n%s", b)
		}
	}
}
