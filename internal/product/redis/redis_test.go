package redis

import (
	"bufio"
	"strings"
	"testing"

	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
)

func TestReadSettings(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/etc/redis/redis.conf": "# a comment\nMAXMEMORY 100mb\nsave 900 1\ninclude /etc/redis/more/*.conf\nsave 300 10\n\ttimeout  \"60\" \r\n" +
			`proc-title-template "{title} \"x\" \x41"` + "\n",
		"/etc/redis/more/a.conf": "maxmemory 1gb\nsave \"\"\n",
		"/etc/redis/more/b.conf": "maxmemory 2gb",
		"/etc/redis/other.conf":  "port 6380\ninclude /etc/redis/shared.conf\n",
		"/etc/redis/shared.conf": "timeout 5\n",
		"/etc/redis/sen.conf":    "sentinel monitor a 127.0.0.1 6379 2\n",
		"/etc/redis/loop.conf":   "include /etc/redis/loop.conf\n",
		"/etc/redis/rel.conf":    "include rel2.conf\n",
		"/etc/redis/bad.conf":    "timeout 1\nbind \"127.0.0.1\n",
	})
	all, err := instances(h)
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	if got := strings.Join(names, " "); err != nil || got != "bad loop other redis rel" {
		t.Errorf("instances %q, %v", got, err)
	}
	s, err := readSettings(h, "/etc/redis/redis.conf")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"maxmemory": "2gb at /etc/redis/more/b.conf:1", "timeout": "60 at /etc/redis/redis.conf:6", "save": "300 10 at /etc/redis/redis.conf:5",
		"proc-title-template": `{title} "x" A at /etc/redis/redis.conf:7`, "databases": " at :0",
	} {
		if v, at, _ := s.value(key); v+" at "+at.String() != want {
			t.Errorf("%s is %s at %s, want %s", key, v, at, want)
		}
	}
	for file, want := range map[string]string{
		"loop": "/etc/redis/loop.conf:1: /etc/redis/loop.conf includes itself",
		"rel":  "/etc/redis/rel.conf:1: include rel2.conf is relative",
		"bad":  `/etc/redis/bad.conf:2: unbalanced quotes`,
	} {
		if _, err := readSettings(h, "/etc/redis/"+file+".conf"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func TestValues(t *testing.T) {
	conftest.Reads(t, readMemory, map[string]float64{"0": 0, "100": 100, "1k": 1000, "1KB": 1024, "64mb": 64 << 20, "2G": 2e9, "2gb": 2 << 30, "7b": 7}, "", "mb", "-1", "1.5gb", "1tb", "1 mb", "99999999999999999999gb", "9223372036854775807gb")
	conftest.Checks(t, check, [][3]string{
		{"maxmemory", "1gb", ""}, {"maxmemory", "lots", "not a Redis size"}, {"requirepass", "x", "not a tuning option"},
		{"port", "1", "not a tuning option"}, {"appendonly", "on", "want yes or no"},
	})
	for bind, want := range map[string]string{
		"": "127.0.0.1", "127.0.0.1 -::1": "127.0.0.1", "10.1.2.3": "10.1.2.3", "* -::*": "127.0.0.1", "::1": "::1", "10.1.2.3 127.0.0.1": "127.0.0.1",
		"0.0.0.0": "127.0.0.1", "example.org": "127.0.0.1",
	} {
		if got := address(bind); got != want {
			t.Errorf("bind %s: %s, want %s", bind, got, want)
		}
	}
}

// Where nothing runs appendonly would lose the snapshot.
func TestAppendOnlyWhileStopped(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/etc/redis/redis.conf": "port 1\n"})
	if err := keepsSnapshot(h, "appendonly", "yes"); err == nil || !strings.Contains(err.Error(), "start Redis before turning appendonly on") {
		t.Error(err)
	}
	if err := keepsSnapshot(h, "appendonly", "no"); err != nil {
		t.Error(err)
	}
}

func TestReply(t *testing.T) {
	for text, want := range map[string]string{
		"+PONG\r\n": "PONG", ":7\r\n": "7", "$3\r\na\nb\r\n": "a\nb", "$-1\r\n": "", "*2\r\n$1\r\na\r\n$0\r\n\r\n": "a|",
	} {
		if got, err := reply(bufio.NewReader(strings.NewReader(text)), 0); err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-ERR no\r\n", "HTTP/1.1 400 Bad Request\r\n", "$999999999\r\n", "*99999999\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "$5\r\nab", "\r\n", "$-2\r\n"} {
		if got, err := reply(bufio.NewReader(strings.NewReader(text)), 0); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add("*2\r\n$1\r\na\r\n:5\r\n")
	f.Add("*10000\r\n*10000\r\n+x\r\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = reply(bufio.NewReader(strings.NewReader(text)), 0) })
}

func FuzzBytes(f *testing.F) {
	f.Add("maxmemory 100mb\nsave 900 1\n", "timeout 5", "maxmemory", "1gb")
	f.Add("", "", "save", "")
	f.Add("include /etc/redis/x\ntimeout 'a'", "timeout \"\\x41\\n\" # no comment", "timeout", `a "b`)
	f.Fuzz(func(t *testing.T, main, more, key, value string) {
		product.Bytes(t, Product, map[string]string{"/etc/redis/redis.conf": main, "/etc/redis/x": more}, "/etc/redis/redis.conf#"+key, value)
	})
}
