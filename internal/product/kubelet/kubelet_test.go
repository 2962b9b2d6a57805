package kubelet

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

const unitFile = `[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS \
  --max-pods 200 $KUBELET_KUBEADM_ARGS
`

func TestOptions(t *testing.T) {
	kubeadm := map[string]string{
		"usr/lib/systemd/system/kubelet.service": unitFile,
		"var/lib/kubelet/kubeadm-flags.env":      "KUBELET_KUBEADM_ARGS=\"--pod-max-pids=4096 --cgroup-driver=systemd\"\n",
		"var/lib/kubelet/config.yaml":            "kind: KubeletConfiguration\nmaxPods: 110\npodPidsLimit: 1024\ncpuManagerPolicy: static\nsystemReserved:\n  cpu: 500m\n  memory: 1Gi\nevictionHard: {memory.available: 100Mi}\ncontainerLogMaxSize: null\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"var/lib/dpkg/status":                    "Package: kubectl\nStatus: install ok installed\nVersion: 9\n\nPackage: kubelet\nStatus: install ok installed\nVersion: 1.29.4-1.1\n",
	}
	openshift := map[string]string{
		"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf\n",
		"etc/kubernetes/kubelet.conf":        `{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "maxPods": 250, "kubeAPIQPS": 50}`,
		"etc/os-release":                     "ID=\"rhcos\"\nOPENSHIFT_VERSION=\"4.16\"\n",
	}
	running := map[string]string{
		"proc/41/comm": "kubelet\n", "proc/41/cmdline": "/usr/bin/kubelet\x00--config\x00/etc/k.yaml\x00--max-pods=30\x00--config-dir=/etc/k.d\x00",
		"etc/k.yaml":        "kind: KubeletConfiguration\nmaxPods: 20\ntopologyManagerPolicy: restricted\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"etc/k.d/10-a.conf": "kind: KubeletConfiguration\ncpuManagerPolicy: none\napiVersion: kubelet.config.k8s.io/v1beta1\n", "etc/k.d/20-b.conf": "kind: KubeletConfiguration\ncpuManagerPolicy: static\napiVersion: kubelet.config.k8s.io/v1beta1\n", "etc/k.d/30.yaml": "not: read\n",
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]string // option: "value at"
	}{
		{"kubeadm", kubeadm, map[string]string{
			"maxPods": "200 /usr/lib/systemd/system/kubelet.service:5", "podPidsLimit": "4096 /var/lib/kubelet/kubeadm-flags.env:1",
			"cgroupDriver": "systemd /var/lib/kubelet/kubeadm-flags.env:1", "cpuManagerPolicy": "static /var/lib/kubelet/config.yaml:4",
			"systemReserved": "cpu=500m,memory=1Gi /var/lib/kubelet/config.yaml:5", "evictionHard": "memory.available=100Mi /var/lib/kubelet/config.yaml:8",
			"containerLogMaxSize": "", "version": "1.29.4", "config": "/var/lib/kubelet/config.yaml",
		}},
		{"OpenShift", openshift, map[string]string{"maxPods": "250 /etc/kubernetes/kubelet.conf:1", "version": "1.29", "config": "/etc/kubernetes/kubelet.conf"}},
		{"running", running, map[string]string{
			"maxPods": "30 the command line of process 41", "topologyManagerPolicy": "restricted /etc/k.yaml:3", "cpuManagerPolicy": "static /etc/k.d/20-b.conf:2",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := find(t.Context(), machine.Mounted(t, c.files))
			if err != nil || len(all) != 1 {
				t.Fatalf("%d found: %v", len(all), err)
			}
			for name, want := range c.want {
				if name == "version" || name == "config" {
					if got := all[0].Answer(name).Value; got != want {
						t.Errorf("%s is %v, want %s", name, got, want)
					}
					continue
				}
				f := all[0].Option(name).Effective()
				v, ok := f.Get()
				got := v + " " + f.Source()
				if !ok {
					got = ""
				}
				if got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestNone(t *testing.T) {
	all, err := find(t.Context(), machine.Mounted(t, map[string]string{
		"etc/kubernetes/kubelet.conf": "kind: Config\nclusters: []\n", // kubeadm's credentials, without a kubelet
	}))
	if err != nil || len(all) != 0 {
		t.Errorf("found %v: %v", all, err)
	}
}

func TestBroken(t *testing.T) {
	for text, want := range map[string]string{
		"maxPods: [\n": "/var/lib/kubelet/config.yaml",
		"- a\n":        "/var/lib/kubelet/config.yaml:1: want a map",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 1\nkind: Deployment\n": "/var/lib/kubelet/config.yaml:3: the kubelet does not start with this file; add kind: KubeletConfiguration",
	} {
		_, err := find(t.Context(), machine.Mounted(t, map[string]string{"var/lib/kubelet/config.yaml": text}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		find       func(string) string
		text, want string
	}{
		{openshiftRelease, "OPENSHIFT_VERSION=\"4.4\"\n", "1.17"},
		{openshiftRelease, "OPENSHIFT_VERSION=3.11\n", ""},
	} {
		if got := c.find(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestReaders(t *testing.T) {
	for text, want := range map[string]float64{"10Mi": 10485760, "50M": 50e6, " 1048576 ": 1048576} {
		if v, err := readSize(text); err != nil || v != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
	if v, err := readSize("10MB"); err == nil {
		t.Errorf("10MB: %v", v)
	}
	v, err := readPairs("memory.available<100Mi, nodefs.available=10%")
	if m, ok := v.(map[string]string); err != nil || !ok || m["memory.available"] != "100Mi" || m["nodefs.available"] != "10%" {
		t.Errorf("%v %v", v, err)
	}
	if _, err := readPairs("cpu"); err == nil {
		t.Error("a word without a value is taken")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("kind: KubeletConfiguration\nmaxPods: 110\n", unitFile)
	f.Add(`{"kind":"KubeletConfiguration","evictionHard":{"memory.available":"1"}}`, "KUBELET_ARGS=\"--max-pods=1 --config /x\"\n")
	f.Add("a: &a [*a]\n", "--\n=--\n")
	f.Fuzz(func(_ *testing.T, config, args string) {
		if doc, err := readConfig(config, "config.yaml"); err == nil {
			doc.patch(doc)
			doc.setDefaults()
			doc.options()
		}
		readFlags(args, "unit", map[string]told{})
		openshiftRelease(args)
		_, _ = readPairs(args)
		_, _ = readSize(args)
	})
}

// The kubelet's YAML is that of its library: merges, aliases, the first document.
func TestConfigMerges(t *testing.T) {
	doc, err := readConfig("x: &x {maxPods: 99, kubeAPIQPS: 7}\nr: &r 500m\nkind: KubeletConfiguration\n<<: *x\nkubeAPIQPS: 50\nsystemReserved: {cpu: *r}\n---\nmaxPods: 1\n", "c")
	if err != nil {
		t.Fatal(err)
	}
	got := doc.options()
	for key, want := range map[string]told{"maxPods": {"99", "c:1"}, "kubeAPIQPS": {"50", "c:5"}, "systemReserved": {"cpu=500m", "c:6"}} {
		if got[key] != want {
			t.Errorf("%s: %+v, want %+v", key, got[key], want)
		}
	}
}

// With an absurd number of drop-ins it is unknown what the kubelet reads.
func TestTooManyDropIns(t *testing.T) {
	files := map[string]string{"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet\n"}
	for i := range maxDropIns + 1 {
		files[fmt.Sprintf("etc/systemd/system/kubelet.service.d/%04d.conf", i)] = "[Service]\nNice=1\n"
	}
	if _, err := find(t.Context(), machine.Mounted(t, files)); err == nil || !strings.Contains(err.Error(), "501 drop-ins, at most 500 are supported") {
		t.Error(err)
	}
	delete(files, "etc/systemd/system/kubelet.service.d/0000.conf")
	if all, err := find(t.Context(), machine.Mounted(t, files)); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
}

// Where a kubelet reads from is what its process says, else its unit; drop-ins lie in
// directories too, and the order is that of a walk.
func TestSetup(t *testing.T) {
	drop := "kind: KubeletConfiguration\n"
	files := map[string]string{
		"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/unit.yaml --max-pods=50\n",
		"etc/k.d/90-fettle.conf":             drop, "etc/k.d/10-a.conf": drop, "etc/k.d/50-more/b.conf": drop, "etc/k.d/50-more/c.yaml": drop, "etc/k.d/99-z.conf": drop,
	}
	s, err := ReadSetup(machine.Mounted(t, files))
	if err != nil || s.Config != "/etc/unit.yaml" || s.ConfigDir != "" || s.StateDir != "/var/lib/kubelet" || s.Flags["maxPods"] != (Flag{"50", "/etc/systemd/system/kubelet.service:2"}) {
		t.Errorf("of the unit: %+v %v", s, err)
	}
	files["proc/41/comm"] = "kubelet\n"
	files["proc/41/cmdline"] = "/usr/bin/kubelet\x00--config-dir=/etc/k.d\x00--root-dir\x00/data/kubelet\x00--topology-manager-scope=pod\x00"
	h := machine.Mounted(t, files)
	s, err = ReadSetup(h)
	if err != nil || s.Config != "" || s.ConfigDir != "/etc/k.d" || s.StateDir != "/data/kubelet" || len(s.Flags) != 1 || s.Flags["topologyManagerScope"].Value != "pod" {
		t.Errorf("of the process: %+v %v", s, err)
	}
	got, err := DropIns(h, s.ConfigDir)
	if want := "[/etc/k.d/10-a.conf /etc/k.d/50-more/b.conf /etc/k.d/90-fettle.conf /etc/k.d/99-z.conf]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("drop-ins %v %v, want %s", got, err, want)
	}
	if _, err := ReadSetup(machine.Mounted(t, map[string]string{"etc/hostname": "x\n"})); err != errNone {
		t.Errorf("without a kubelet: %v", err)
	}
}

// What a kubelet says that it runs with counts as what runs.
func TestOf(t *testing.T) {
	i, err := Of(Reported{Config: []byte(`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","maxPods":250,"systemReserved":{"cpu":"500m"},"enforceNodeAllocatable":["pods"],"failSwapOn":false}`), At: "/configz of node a", Version: "1.34.4"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"maxPods": "250", "systemReserved": "cpu=500m", "failSwapOn": "false", "podsPerCore": ""} {
		if v, _ := i.Option(name).Effective().Get(); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	if at := i.Option("maxPods").Effective().Source(); at != "/configz of node a" {
		t.Errorf("it is from %q", at)
	}
	if i.Answer("version").Value != "1.34.4" || i.Answer("installed").Value != true {
		t.Errorf("%+v", i.Answer("version"))
	}
	if i, err := Of(Reported{Config: []byte(`{}`), At: "x", Version: ""}); err != nil || i.Answer("version").Unknown == "" {
		t.Errorf("%v", err)
	}
	for _, text := range []string{`[]`, `{"kind":"Node"}`, `{"a":`} {
		if _, err := Of(Reported{Config: []byte(text), At: "x", Version: ""}); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte(`{"maxPods":250,"systemReserved":{"cpu":"500m"},"a":[1,2],"b":null}`))
	f.Add([]byte("maxPods: &a 250\nb: *a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := Of(Reported{Config: text, At: "x", Version: "1"})
		if err != nil {
			return
		}
		for name := range i.(*installed).running {
			if _, known := i.Option(name).Running.Get(); !known {
				t.Errorf("%q is listed, and has no value", name)
			}
		}
	})
}

// TestNegative: what keeps a kubelet from starting is not a value, and no default either.
func TestNegative(t *testing.T) {
	for _, c := range []struct{ flags, config, name, want, unknown string }{
		{"", "kubeAPIQPS: -1", "kubeAPIQPS", "", "kubeAPIQPS of -1 must not be negative, or the kubelet does not start"},
		{"", "kubeAPIBurst: -5", "kubeAPIBurst", "", "kubeAPIBurst of -5 must not be negative, or the kubelet does not start"},
		{"", "podPidsLimit: 7", "podPidsLimit", "7", ""},
		{" --max-pods=-3", "maxPods: 20", "maxPods", "", "maxPods of -3 must not be negative, or the kubelet does not start"},
		{" --max-pods=30", "maxPods: -3", "maxPods", "30", ""},
	} {
		found, err := find(t.Context(), machine.Mounted(t, map[string]string{
			"etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/k.yaml" + c.flags + "\n",
			"etc/k.yaml":                         "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + c.config + "\n",
		}))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d found: %v", len(found), err)
		}
		is := found[0].Option(c.name).Effective()
		if value, _ := is.Get(); value != c.want || is.Unknown() != c.unknown {
			t.Errorf("%s%s: %q, unknown %q; want %q, %q", c.config, c.flags, value, is.Unknown(), c.want, c.unknown)
		}
	}
}
