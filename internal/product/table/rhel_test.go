package table

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// process adds one to a tree, as /proc shows it.
func process(tree map[string]string, pid, parent int, comm, argv, cgroup string) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	tree[dir+"comm"] = comm + "\n"
	tree[dir+"stat"] = fmt.Sprintf("%d (%s) S %d %s 100 0\n", pid, comm, parent, strings.Repeat("0 ", 17))
	tree[dir+"cmdline"] = strings.ReplaceAll(argv, " ", "\x00") + "\x00"
	tree[dir+"status"] = "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
	tree[dir+"cgroup"] = cgroup
}

// itself answers what is asked of a machine with that machine.
type itself struct{ h *host.Host }

func (m itself) Query(ctx context.Context, _ string, ask func(context.Context, *host.Host) ([]byte, error)) ([]byte, error) {
	return ask(ctx, m.h)
}

// The layouts of Red Hat: which unit is told follows from the control group of the
// process, those of RHEL 7's two kinds of hierarchies too; where nothing runs any
// more, from the files that are installed.
func TestUnitsOfRedHat(t *testing.T) {
	const units = "/usr/lib/systemd/system/"
	v1 := func(unit string) string {
		return "10:memory:/system.slice/" + unit + "\n1:name=systemd:/system.slice/" + unit + "\n"
	}
	v2 := func(unit string) string { return "0::/system.slice/" + unit + "\n" }
	for name, c := range map[string]struct {
		files map[string]string
		comm  string
		argv  string
		group string
		child string // what serves, where the main process is another program
		set   string
		want  string
	}{
		"httpd": {
			files: map[string]string{"/etc/httpd/conf/httpd.conf": "ServerRoot \"/etc/httpd\"\nTimeout 60\n", units + "httpd.service": "[Service]\nExecStart=/usr/sbin/httpd $OPTIONS -DFOREGROUND\n"},
			comm:  "httpd", argv: "/usr/sbin/httpd -DFOREGROUND", group: v2("httpd.service"),
			set: "httpd:ServerLimit", want: "restart of httpd.service",
		},
		"nginx of a collection": {
			files: map[string]string{"/etc/opt/rh/rh-nginx118/nginx/nginx.conf": "worker_processes auto;\nevents { worker_connections 1024; }\n", units + "rh-nginx118-nginx.service": "[Service]\nType=forking\n"},
			comm:  "nginx", argv: "nginx: master process /opt/rh/rh-nginx118/root/usr/sbin/nginx -c /etc/opt/rh/rh-nginx118/nginx/nginx.conf", group: v1("rh-nginx118-nginx.service"),
			set: "nginx:worker_processes", want: "reload of rh-nginx118-nginx.service",
		},
		"haproxy of RHEL 7": {
			files: map[string]string{"/etc/haproxy/haproxy.cfg": "global\n\tmaxconn 4000\n\tdaemon\n", units + "haproxy.service": "[Service]\nExecStart=/usr/sbin/haproxy-systemd-wrapper -f /etc/haproxy/haproxy.cfg\n"},
			comm:  "haproxy-systemd", argv: "/usr/sbin/haproxy-systemd-wrapper -f /etc/haproxy/haproxy.cfg -p /run/haproxy.pid", group: v1("haproxy.service"),
			child: "/usr/sbin/haproxy -f /etc/haproxy/haproxy.cfg -p /run/haproxy.pid -Ds",
			set:   "haproxy:maxconn", want: "reload of haproxy.service",
		},
		"haproxy of a collection": {
			files: map[string]string{"/etc/opt/rh/rh-haproxy18/haproxy/haproxy.cfg": "global\n\tmaxconn 4000\n", units + "rh-haproxy18-haproxy.service": "[Service]\nType=notify\n"},
			comm:  "haproxy", argv: "/opt/rh/rh-haproxy18/root/usr/sbin/haproxy -f /etc/opt/rh/rh-haproxy18/haproxy/haproxy.cfg", group: v1("rh-haproxy18-haproxy.service"),
			set: "haproxy:maxconn", want: "reload of rh-haproxy18-haproxy.service",
		},
		"mosquitto": {
			files: map[string]string{"/etc/mosquitto/mosquitto.conf": "persistence true\n", units + "mosquitto.service": "[Service]\nType=notify\n"},
			comm:  "mosquitto", argv: "/usr/sbin/mosquitto -c /etc/mosquitto/mosquitto.conf", group: v2("mosquitto.service"),
			set: "mosquitto:max_queued_messages", want: "restart of mosquitto.service",
		},
		"qpidd": {
			files: map[string]string{"/etc/qpid/qpidd.conf": "auth=no\n", units + "qpidd.service": "[Service]\nExecStart=/usr/sbin/qpidd --config /etc/qpid/qpidd.conf\n"},
			comm:  "qpidd", argv: "/usr/sbin/qpidd --config /etc/qpid/qpidd.conf", group: v2("qpidd.service"),
			set: "qpid:mgmt-pub-interval", want: "restart of qpidd.service",
		},
		"etcd": {
			files: map[string]string{"/etc/etcd/etcd.conf": "ETCD_NAME=default\n", units + "etcd.service": "[Service]\nType=notify\nEnvironmentFile=-/etc/etcd/etcd.conf\nExecStart=/usr/bin/etcd\n",
				"/etc/systemd/system/multi-user.target.wants/etcd.service": "-> " + units + "etcd.service"},
			comm: "etcd", argv: "/usr/bin/etcd", group: v2("etcd.service"),
			set: "etcd:heartbeat-interval", want: "restart of etcd.service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["/run/systemd/system/"], c.files["/etc/systemd/system/"] = "", ""
			process(c.files, 100, 1, c.comm, c.argv, c.group)
			if c.child != "" {
				process(c.files, 101, 100, "haproxy", c.child, c.group)
			}
			h := machine.Mounted(t, c.files)
			h.Live, h.Querier = true, itself{h}
			h.Exec = &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"systemctl": func(host.Command) host.Result {
				return host.Result{Stdout: []byte("LoadState=loaded\nActiveState=active\nMainPID=100\nCanReload=yes\n")}
			}}}
			kinds := Kinds(h)
			s, err := setting.Parse(c.set)
			if err == nil {
				s, err = kinds.Resolve(s)
			}
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := kinds.Activation(t.Context(), s); !ok || a.String() != c.want {
				t.Errorf("%q, %v, want %q", a, ok, c.want)
			}
		})
	}
}

// After a crash the unit of a collection is known from the files, where its
// program has ended meanwhile; in addition the distribution's own may be installed.
func TestUnitOfACollectionThatHasEnded(t *testing.T) {
	const units = "/usr/lib/systemd/system/"
	h := machine.Mounted(t, map[string]string{
		"/run/systemd/system/": "", "/etc/systemd/system/": "", "/proc/1/comm": "systemd\n",
		"/etc/nginx/nginx.conf": "events { }\n", units + "nginx.service": "[Service]\n",
		"/etc/opt/rh/rh-nginx118/nginx/nginx.conf": "events { }\n", units + "rh-nginx118-nginx.service": "[Service]\n",
		"/etc/opt/rh/rh-haproxy18/haproxy/haproxy.cfg": "global\n\tmaxconn 4000\n", units + "rh-haproxy18-haproxy.service": "[Service]\n",
	})
	h.Live, h.Querier = true, itself{h}
	h.Exec = &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"nginx": nil, "haproxy": nil}} // they find their files good
	for _, a := range []setting.Setting{
		{Kind: "nginx", Name: "nginx.service"}, {Kind: "nginx", Name: "rh-nginx118-nginx.service"}, {Kind: "haproxy", Name: "rh-haproxy18-haproxy.service"},
	} {
		k := Kinds(h)[a.Kind].(setting.Activator)
		if err := k.Activate(t.Context(), setting.Activation{Program: a.Name}); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
		if err := k.Activate(t.Context(), setting.Activation{Program: "other-" + a.Name}); err == nil {
			t.Errorf("other-%s is taken for one of these", a.Name)
		}
	}
}
