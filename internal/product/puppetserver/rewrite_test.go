package puppetserver

import (
	"strings"
	"testing"
)

func TestLoopback(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"Debian's": {
			"webserver: {\n    access-log-config: /etc/puppet/puppetserver/request-logging.xml\n    client-auth: want\n    ssl-host: 0.0.0.0\n    ssl-port: 8140\n}\n",
			"webserver: {\n    host: 127.0.0.1\n    port: 8139\n    access-log-config: /etc/puppet/puppetserver/request-logging.xml\n}\n",
		},
		"one that has plain HTTP too": {
			"# ours\nwebserver {\n  \"ssl-host\" = \"::\" # all\n  ssl-port = 8140,\n  port = 8080\n  max-threads: 50\n}\n",
			"# ours\nwebserver {\n    host: 127.0.0.1\n    port: 8139\n  max-threads: 50\n}\n",
		},
		"whole paths": {"webserver.ssl-port: 8140\nwebserver.max-threads: 9", "webserver.max-threads: 9\nwebserver: {\n    host: 127.0.0.1\n    port: 8139\n}\n"},
		"none":        {"", "webserver: {\n    host: 127.0.0.1\n    port: 8139\n}\n"},
		"several":     {"webserver: {\n a: {\n  ssl-port: 8140\n }\n}\n", "error 3: several servers (a)"},
		"one line":    {"webserver: { ssl-host: 0.0.0.0, ssl-port: 8140 }\n", "error 1: webserver.ssl-port shares its line"},
		"a reference": {"webserver: {\n    ssl-port: ${x}\n}\n", "error 4: the value of ssl-port"},
		"nested":      {"a: {\nwebserver: {\n}\n}\n", "error 3: nested object"},
		"broken":      {"webserver: {\n", "error 2: { is not closed"},
	} {
		got, err := Loopback(tt.text, 8139)
		if want, bad := strings.CutPrefix(tt.want, "error "); bad {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %q, %v, want %s", name, got, err, want)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, tt.want)
		}
	}
}

func TestWithOption(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"jruby-puppet: {\n    max-active-instances: 6 # x\n}\n", "jruby-puppet: {\n    max-active-instances: 3 # x\n}\n"},
		{"jruby-puppet: {\n    #max-active-instances: 1\n    gem-home: /x\n}\n", "jruby-puppet: {\n    max-active-instances: 3\n    #max-active-instances: 1\n    gem-home: /x\n}\n"},
		{"profiler: {}", "profiler: {}\njruby-puppet: {\n    max-active-instances: 3\n}\n"},
	} {
		if got, err := WithOption(tt.text, "jruby-puppet.max-active-instances", "3"); err != nil || got != tt.want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, tt.want)
		}
	}
}

func TestWithJava(t *testing.T) {
	all := map[string]string{"heap": "3g", "heap_min": "3g", "code_cache": "384m"}
	for _, tt := range []struct{ text, want string }{
		{"JAVA_ARGS=\"-Xms1g -Xmx1g -Dx=y\"\nTK_ARGS=\"\"\n", "JAVA_ARGS=\"-XX:ReservedCodeCacheSize=384m -Xms3g -Xmx3g -Dx=y\"\nTK_ARGS=\"\"\n"},
		{"JAVA_ARGS='-Xmx1g -Xmx2g -XX:ReservedCodeCacheSize=1m'\n", "JAVA_ARGS='-Xms3g -Xmx3g -Xmx3g -XX:ReservedCodeCacheSize=384m'\n"},
		{"A=b", "A=b\nJAVA_ARGS=\"-Xms3g -Xmx3g -XX:ReservedCodeCacheSize=384m\"\n"},
		{"A=b\nJAVA_ARGS=-Xmx1g\n", "error 2: JAVA_ARGS has no quotes"},
	} {
		got, err := WithJava(tt.text, all)
		if want, bad := strings.CutPrefix(tt.want, "error "); bad {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q, %v, want %s", got, err, want)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, tt.want)
		}
	}
}

func FuzzLoopback(f *testing.F) {
	f.Add("webserver: {\n ssl-port: 8140\n}\n")
	f.Add("webserver.ssl-host: \"0.0.0.0\"\nwebserver { port = 1, }\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Loopback(text, 8139)
		if err != nil {
			return
		}
		all, err := hocon(got)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		last := map[string]string{}
		for _, a := range all {
			last[a.Key] = syntax{}.Unquote(a.Literal)
		}
		if last["webserver.host"] != "127.0.0.1" || last["webserver.port"] != "8139" || last["webserver.ssl-port"] != "" || last["webserver.ssl-host"] != "" {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
