package socket

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/testkit/root"
)

// asked is a daemon for the tests of the protocol: what it answers shows that
// the arguments arrived.
type asked struct {
	daemon.Control
	changed chan daemon.ProfileChanged
}

func (a asked) Switch(ctx context.Context, names string) (bool, string) {
	if names == "who" {
		c, ok := tune.CallerIn(ctx)
		return ok, fmt.Sprintf("%d %s", c.UID, c.Via)
	}
	return true, "<" + names + ">"
}
func (a asked) ActiveProfile() string { return "balanced" }
func (a asked) Profiles(context.Context) []daemon.NamedSummary {
	return []daemon.NamedSummary{{Name: "a", Summary: "first"}, {Name: "b"}}
}
func (a asked) Capture(level int, limit time.Duration) string { return limit.String() }
func (a asked) CreateInstance(_ context.Context, plugin, name string, options map[string]string) (bool, string) {
	return true, plugin + " " + name + " " + options["k"]
}
func (a asked) Plugins() map[string]map[string]string {
	return map[string]map[string]string{"vm": {"o": "d"}}
}
func (a asked) Changed(context.Context) <-chan daemon.ProfileChanged { return a.changed }

func serve(t *testing.T, change func(*Options)) (path string, c asked) {
	t.Helper()
	c = asked{changed: make(chan daemon.ProfileChanged)}
	dir, err := os.MkdirTemp("", "fettle-") // short: an address holds 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := Options{Control: c, Path: filepath.Join(dir, "run/tuned.sock"), Permissions: 0o600, Backlog: 8}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Serve(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		s.Wait()
		if _, err := os.Lstat(o.Path); err == nil {
			t.Error("the socket is still there")
		}
	})
	return o.Path, c
}

// ask sends a text, shuts the sending side down and returns the answer.
func ask(t *testing.T, path, text string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	conn.(*net.UnixConn).CloseWrite()
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func TestRequests(t *testing.T) {
	path, _ := serve(t, nil)
	for _, c := range []struct{ ask, want string }{
		{`{"jsonrpc":"2.0","method":"active_profile","id":1}`, `{"jsonrpc":"2.0","id":1,"result":"balanced"}`},
		{`{"jsonrpc":"2.0","method":"active_profile","id":0,"params":[]}`, `{"jsonrpc":"2.0","id":0,"result":"balanced"}`},
		{`{"jsonrpc":"2.0","method":"active_profile","id":"x","params":{}}`, `{"jsonrpc":"2.0","id":"x","result":"balanced"}`},
		{`{"jsonrpc":"2.0","method":"active_profile","id":null}`, `{"jsonrpc":"2.0","id":null,"result":"balanced"}`},
		{`{"jsonrpc":"2.0","method":"profiles","id":1}`, `{"jsonrpc":"2.0","id":1,"result":["a","b"]}`},
		{`{"jsonrpc":"2.0","method":"profiles2","id":1}`, `{"jsonrpc":"2.0","id":1,"result":[["a","first"],["b",""]]}`},
		{`{"jsonrpc":"2.0","method":"get_all_plugins","id":1}`, `{"jsonrpc":"2.0","id":1,"result":{"vm":{"o":"d"}}}`},
		{`{"jsonrpc":"2.0","method":"switch_profile","id":1,"params":["a&b"]}`, `{"jsonrpc":"2.0","id":1,"result":[true,"<a&b>"]}`},
		{` {"jsonrpc":"2.0","method":"switch_profile","id":1,"params":{"profile_name":"a"}} ` + "\n", `{"jsonrpc":"2.0","id":1,"result":[true,"<a>"]}`},
		{`{"jsonrpc":"2.0","method":"switch_profile","id":1,"params":["who"]}`, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":[true,"%d socket"]}`, os.Geteuid())},
		{`{"jsonrpc":"2.0","method":"switch_profile","id":1,"params":["a\n"]}`, `{"jsonrpc":"2.0","id":1,"result":[false,"Invalid profile_name"]}`},
		{`{"jsonrpc":"2.0","method":"log_capture_start","id":1,"params":{"timeout":5,"log_level":40}}`, `{"jsonrpc":"2.0","id":1,"result":"5s"}`},
		{`{"jsonrpc":"2.0","method":"instance_create","id":1,"params":["disk","d",{"k":"v"}]}`, `{"jsonrpc":"2.0","id":1,"result":[true,"disk d v"]}`},
		{`{"jsonrpc":"2.0","method":"register_socket_signal_path","id":1,"params":["/x"]}`, `{"jsonrpc":"2.0","id":1,"result":true}`},
		// A batch; notifications in it have no answer.
		{`[{"jsonrpc":"2.0","method":"active_profile","id":1},{"jsonrpc":"2.0","method":"active_profile"},3]`,
			`[{"jsonrpc":"2.0","id":1,"result":"balanced"},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request","data":"not an object"}}]`},
		{`{"jsonrpc":"2.0","method":"active_profile"}`, ``},
		{`[{"jsonrpc":"2.0","method":"active_profile"}]`, ``},
		{``, ``},
	} {
		if got := ask(t, path, c.ask); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.ask, got, c.want)
		}
	}
	for _, c := range []struct {
		ask  string
		code int
	}{
		{`{`, -32700}, {` `, -32700}, {`{} {}`, -32700}, {strings.Repeat(" ", maxRequest+1), -32700},
		{`[]`, -32600}, {`3`, -32600}, {`null`, -32600}, {`{}`, -32600}, {`{"jsonrpc":"1.0","method":"profiles","id":1}`, -32600},
		{`{"jsonrpc":"2.0","method":5,"id":1}`, -32600}, {`{"jsonrpc":"2.0","method":"profiles","id":{}}`, -32600},
		{`{"jsonrpc":"2.0","method":"profiles","id":1,"params":3}`, -32600},
		{`{"jsonrpc":"2.0","method":"nothing","id":1}`, -32601}, {`{"jsonrpc":"2.0","method":"profile_changed","params":["a",true,""],"id":1}`, -32601},
		{`{"jsonrpc":"2.0","method":"switch_profile","id":1}`, -32602}, {`{"jsonrpc":"2.0","method":"switch_profile","params":[1],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"switch_profile","params":[null],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"switch_profile","params":["a","b"],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"switch_profile","params":{"name":"a"},"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"switch_profile","params":{"profile_name":"a","caller":""},"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"log_capture_start","params":["40",1],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"log_capture_start","params":[4.5,1],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"log_capture_start","params":[99999999999,1],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"instance_create","params":["a","b",{"k":1}],"id":1}`, -32602},
		{`{"jsonrpc":"2.0","method":"instance_create","params":["a","b",null],"id":1}`, -32602},
	} {
		var got struct{ Error struct{ Code int } }
		text := ask(t, path, c.ask)
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Error.Code != c.code {
			t.Errorf("%.100s\n got %s (%v), want code %d", c.ask, text, err, c.code)
		}
	}
}

func TestSignals(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	path, c := serve(t, func(o *Options) { o.SignalPaths = []string{filepath.Join(dir, "nobody"), first} })
	got := make(chan string, 2)
	for _, p := range []string{first, second} {
		l, err := net.Listen("unix", p)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(conn)
			got <- string(data)
		}()
	}
	ask(t, path, `{"jsonrpc":"2.0","method":"register_socket_signal_path","params":["`+second+`"],"id":1}`)
	c.changed <- daemon.ProfileChanged{Profiles: "a b", OK: false, Message: "why"}
	for range 2 {
		if s := <-got; s != `{"jsonrpc":"2.0","method":"profile_changed","params":["a b",false,"why"]}`+"\n" {
			t.Errorf("signal %q", s)
		}
	}
}

func TestModeOwnerAndOldSocket(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: old})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	path, _ := serve(t, func(o *Options) { o.Path, o.Permissions, o.Ownership = old, 0o660, "-1 -1" })
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fsSocket|0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Error("not ours")
	}

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"a file":     {Path: file, Permissions: 0o600},
		"no user":    {Path: filepath.Join(dir, "x"), Ownership: "nobody-of-this-name 0"},
		"no group":   {Path: filepath.Join(dir, "x"), Ownership: "0 nobody-of-this-name"},
		"three":      {Path: filepath.Join(dir, "x"), Ownership: "0 0 0"},
		"a long one": {Path: filepath.Join(dir, strings.Repeat("x", 120))},
	} {
		o.Control = asked{}
		if s, err := Serve(t.Context(), o); err == nil {
			t.Errorf("%s: served as %v", name, s.options)
		} else {
			t.Log(err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Error("the file in the socket's place was touched")
	}
}

const fsSocket = os.ModeSocket

func TestPeers(t *testing.T) {
	for _, c := range []struct {
		mode os.FileMode
		p    peer
		want bool
	}{
		{0o600, peer{uid: 0}, true},
		{0o000, peer{uid: 0}, true},
		{0o600, peer{uid: 7, gid: 9}, true},
		{0o600, peer{uid: 1000, gid: 8}, false},
		{0o660, peer{uid: 1000, gid: 8}, true},
		{0o660, peer{uid: 1000, gid: 100, groups: []int{5, 8}}, true},
		{0o660, peer{uid: 1000, gid: 100, groups: []int{5}}, false},
		{0o666, peer{uid: 1000, gid: 100}, true},
		{0o606, peer{uid: 1000, gid: 8}, false},
		{0o606, peer{uid: -1, gid: -1}, true}, // credentials that cannot be read are refused before
	} {
		s := &Server{options: Options{Permissions: c.mode}, uid: 7, gid: 8}
		if got := s.allows(c.p); got != c.want {
			t.Errorf("mode %o, %+v: %t", c.mode, c.p, got)
		}
	}
}

// TestRefusedPeer connects as another user over a socket whose file was
// opened for all users.
func TestRefusedPeer(t *testing.T) {
	if os.Geteuid() != 0 {
		root.Missing(t, "becoming another user needs root")
	}
	path, _ := serve(t, nil)
	for p := filepath.Dir(path); p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	client := asUser(t, path, 65534, 65534)
	if !strings.Contains(client, `"code":-32000`) {
		t.Errorf("another user was answered %s", client)
	}
}
