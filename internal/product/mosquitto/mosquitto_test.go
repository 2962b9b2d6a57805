package mosquitto

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product"
	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
)

const mainFile = "/etc/mosquitto/mosquitto.conf"

var tree = map[string]string{
	mainFile: `# a comment
persistence true
max_queued_messages 100
max_connections 7
include_dir /etc/mosquitto/conf.d
max_inflight_messages   40
`,
	"/etc/mosquitto/conf.d/b.conf": "max_queued_messages 300\nlistener 8883\ncertfile /x\nmax_connections 50\nmax_queued_bytes 9\nlistener 1884 10.0.0.1\nmax_connections 20\n",
	"/etc/mosquitto/conf.d/B.conf": "max_queued_messages 200\ninclude_dir /etc/mosquitto/none\n",
	"/etc/mosquitto/conf.d/a.conf": "sys_interval 5\nmax_connections 3\n",
	"/etc/mosquitto/conf.d/README": "sys_interval 6\n",
	"/etc/mosquitto/conf.d/.conf":  "sys_interval 7\n",
	"/var/lib/dpkg/status":         "Package: mosquitto\nStatus: install ok installed\nVersion: 2.0.20-1\n",
}

func TestRead(t *testing.T) {
	h := machine.Mounted(t, tree)
	all, err := Product.Find(t.Context(), h)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	i := all[0].(*installed)
	if i.FileErr != nil {
		t.Fatal(i.FileErr)
	}
	testkitproduct.Reads(t, i, map[string]string{
		"max_queued_messages": "300 /etc/mosquitto/conf.d/b.conf:1", "max_inflight_messages": "40 " + mainFile + ":6", "sys_interval": "5 /etc/mosquitto/conf.d/a.conf:1",
		"max_connections": "3 /etc/mosquitto/conf.d/a.conf:2", "listener 8883/max_connections": "50 /etc/mosquitto/conf.d/b.conf:4",
		"listener 1884  10.0.0.1/max_connections": "20 /etc/mosquitto/conf.d/b.conf:7", "max_queued_bytes": "9 /etc/mosquitto/conf.d/b.conf:5", "memory_limit": " " + mainFile,
	}, map[string]any{"version": "2.0.20", "connections_limit": 70.0})
}

func TestListeners(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "tcp 127.0.0.1:1883 true -1",
		"max_connections 5\n": "tcp 127.0.0.1:1883 true 5",
		"port 1885\nbind_address ::1\nmax_connections -1\n":                                              "tcp [::1]:1885 true -1",
		"listener 1883\nlistener 8883 0.0.0.0\nkeyfile /x\nmax_connections 5\n":                          "tcp 127.0.0.1:1883 true, tcp 127.0.0.1:8883 false -1",
		"listener 0 /run/m.sock\nmax_connections 4\nlistener 80\nprotocol websockets\nmax_connections 5": "unix /run/m.sock true, tcp 127.0.0.1:80 false 9",
	} {
		h := machine.Mounted(t, map[string]string{mainFile: text})
		s, err := readSettings(h, mainFile)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range s.listeners() {
			plain := "false"
			if l.plain {
				plain = "true"
			}
			got = append(got, l.network+" "+l.address+" "+plain)
		}
		n, _ := s.connections()
		if got := strings.Join(got, ", ") + " " + short(n); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func short(n float64) string {
	if n < 0 {
		return "-1"
	}
	return string(rune('0' + int(n)))
}

func TestBroken(t *testing.T) {
	for text, want := range map[string]string{
		"include_dir conf.d\n":         "mosquitto.conf:1: include_dir conf.d is relative",
		"include_dir /etc/none\n":      "mosquitto.conf:1: ",
		"include_dir /etc/mosquitto\n": "mosquitto.conf includes itself",
	} {
		h := machine.Mounted(t, map[string]string{mainFile: text})
		if _, err := readSettings(h, mainFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestOrder(t *testing.T) {
	want := []string{"00.conf", "01.conf", "A.conf", "a.conf", "B.conf", "b.conf"} // mosquitto.conf(5)
	for i := range want {
		for j := range want {
			if got := inOrder(want[i], want[j]); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%s, %s: %d", want[i], want[j], got)
			}
		}
	}
}

func TestValues(t *testing.T) {
	conftest.Checks(t, check, [][3]string{
		{"max_queued_messages", "5", ""}, {"max_queued_messages", "-5", "not a number"}, {"max_connections", "-1", ""}, {"max_connections", "-2", "not a number"},
		{"persistence", "yes", "want true or false"}, {"max_packet_size", "10", "minimum is 20"}, {"max_packet_size", "0", ""},
		{"persistent_client_expiration", "14d", ""}, {"persistent_client_expiration", "14", "not a mosquitto time"}, {"persistent_client_expiration", "0d", "not a mosquitto time"},
		{"listener 1883/max_connections", "5", ""}, {"user", "root", "not a tuning option"}, {"listener 1883/certfile", "/x", "not a tuning option"},
	})
	for _, c := range []struct{ text, key, want string }{
		{"a b\n", "max_queued_messages", "a b\nmax_queued_messages 5"}, {"listener 1\n", "max_connections", "max_connections 5\nlistener 1\n"},
		{"listener 1 x # no comment\n\nb c\n", "listener 1 x # no comment/max_connections", "is not a listener option"},
		{"listener 1 x\nlistener  2\r\n", "listener 2/max_connections", "listener 1 x\nlistener  2\r\nmax_connections 5\n"},
		{"listener 1", "listener 1/max_connections", "no listener 1 on its own line"}, {"", "user", "add it by hand"},
	} {
		key, err := syntax{}.Key(c.key)
		got, at := "", 0
		if err == nil {
			if at, err = (syntax{}).Place(c.text, key); err == nil {
				got = c.text[:at] + syntax{}.Line(key, "5") + "\n" + c.text[at:]
			}
		}
		if strings.TrimSuffix(got, "\n") != strings.TrimSuffix(c.want, "\n") && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q, %s: %q, %v, want %q", c.text, c.key, got, err, c.want)
		}
	}
}

// A broker that answers, a program that is not a broker, one that says too much.
func TestMQTT(t *testing.T) {
	dir := t.TempDir()
	serve := func(name string, answers ...[]byte) listener {
		l, err := net.Listen("unix", dir+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				m := &mqtt{c, bufio.NewReader(c)}
				if _, _, err := m.receive(); err == nil {
					for _, a := range answers {
						_, _ = c.Write(a)
					}
					for err == nil { // until it has said all
						_, _, err = m.receive()
					}
				}
				c.Close()
			}
		}()
		return listener{network: "unix", address: dir + "/" + name, plain: true}
	}
	publish := func(kind byte, topic, value string) []byte {
		body := field(topic)
		if kind&6 != 0 {
			body = append(body, 0, 9)
		}
		body = append(body, value...)
		return append([]byte{kind, byte(len(body))}, body...)
	}
	m, code, err := open(t.Context(), serve("good", []byte{packetConnAck, 2, 0, 0}, []byte{packetSubAck, 3, 0, 1, 0},
		publish(packetPublish|1, "$SYS/broker/version", "mosquitto version 2.0.11"), publish(packetPublish|2, "b", "7"), []byte{packetPong, 0}))
	if err != nil || code != 0 {
		t.Fatal(code, err)
	}
	sys, err := m.sys()
	m.close()
	if err != nil || len(sys) != 2 || sys["$SYS/broker/version"] != "mosquitto version 2.0.11" || sys["b"] != "7" {
		t.Errorf("%q, %v", sys, err)
	}
	for text, want := range map[string]string{
		"\x00": "0 0 65535", "\x03\x21\x00\x14": "20 0 65535", "\x0f\x12\x00\x04auto\x27\x00\x00\x03\xe8\x13\x00\x3c": "0 1000 60",
	} {
		got, err := readLimits([]byte(text))
		if line := got["max_inflight_messages"] + " " + got["max_packet_size"] + " " + got["max_keepalive"]; err != nil || line != want {
			t.Errorf("%q: %s, %v, want %s", text, line, err, want)
		}
	}
	for _, text := range []string{"", "\x03\x21", "\x02\x21\x00", "\x03\x12\x00\x09", "\x01\x99", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if got, err := readLimits([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, code, err := open(t.Context(), serve("closed", []byte{packetConnAck, 2, 0, 5})); err != nil || code != 5 {
		t.Errorf("%d, %v", code, err)
	}
	if _, _, err := open(t.Context(), serve("other", []byte("HTTP/1.1 400 Bad Request\r\n"+strings.Repeat("x", 200)))); err == nil {
		t.Error("a web server is a broker")
	}
	if _, _, err := open(t.Context(), serve("long", []byte{packetConnAck, 0xff, 0xff, 0xff, 0x7f})); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("%v", err)
	}
	if _, _, err := open(t.Context(), listener{network: "unix", address: dir + "/none"}); !errors.Is(err, product.ErrStopped) {
		t.Errorf("%v", err)
	}
}

func FuzzBytes(f *testing.F) {
	f.Add(tree[mainFile], "persistence true\n", "max_queued_messages", "5")
	f.Add("listener 1883\nmax_connections 5\n", "", "listener 1883/max_connections", "7")
	f.Add("include_dir /etc/mosquitto/conf.d", "listener 1\nmax_connections 3", "max_connections", "7")
	f.Fuzz(func(t *testing.T, main, more, key, value string) {
		testkitproduct.Bytes(t, Product, map[string]string{mainFile: main, "/etc/mosquitto/conf.d/a.conf": more}, mainFile+"#"+key, value)
	})
}

func FuzzMQTT(f *testing.F) {
	f.Add([]byte{packetConnAck, 2, 0, 0})
	f.Add([]byte{packetPublish | 2, 5, 0, 1, 'a', 0, 9})
	f.Fuzz(func(t *testing.T, in []byte) {
		m := &mqtt{r: bufio.NewReader(bytes.NewReader(in))}
		for {
			kind, body, err := m.receive()
			if err != nil {
				return
			}
			if len(body) > len(in) {
				t.Fatalf("%d bytes of %d", len(body), len(in))
			}
			_, _, _ = readPublish(kind, body)
			_, _ = readLimits(body)
		}
	})
}
