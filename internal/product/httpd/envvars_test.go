package httpd

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
)

const debianEnvvars = "/etc/apache2/envvars"

// debian is the layout of Debian's package, with a script that sets a limit.
func debian(envvars string) map[string]string {
	return map[string]string{debianMain: "Timeout 300\n", debianEnvvars: envvars}
}

func TestUlimitIsRead(t *testing.T) {
	for envvars, want := range map[string]string{
		"": "",
		"#APACHE_ULIMIT_MAX_FILES='ulimit -n 65536'\n":                                  "",
		"export APACHE_ULIMIT_MAX_FILES='ulimit -n 65536' # ours\n":                     "'ulimit -n 65536'",
		"APACHE_ULIMIT_MAX_FILES=true\nX=1\nAPACHE_ULIMIT_MAX_FILES=\"ulimit -n 9000\"": `"ulimit -n 9000"`,
		"APACHE_ULIMIT_MAX_FILES=\n":                                                    "",
		"unset HOME # APACHE_ULIMIT_MAX_FILES=x\n":                                      "",
		"if true; then\n  APACHE_ULIMIT_MAX_FILES=true\nfi\n":                           "envvars:2: APACHE_ULIMIT_MAX_FILES is set by shell code",
		"APACHE_ULIMIT_MAX_FILES=ulimit -n 5\n":                                         "envvars:1: APACHE_ULIMIT_MAX_FILES is set by shell code",
		"APACHE_ULIMIT_MAX_FILES=\"ulimit -n $N\"\n":                                    "envvars:1: APACHE_ULIMIT_MAX_FILES is set by shell code",
		"APACHE_ULIMIT_MAX_FILES='ulimit\n -n 5'\n":                                     "envvars:1: APACHE_ULIMIT_MAX_FILES is set by shell code",
		"X=1 APACHE_ULIMIT_MAX_FILES=true true\n":                                       "envvars:1: APACHE_ULIMIT_MAX_FILES is set by shell code",
	} {
		k := Product.Kind(machine.Mounted(t, debian(envvars)))
		s, err := k.Resolve(setting.Setting{Kind: "httpd", Name: "apache2/apache_ulimit_max_files"})
		if err != nil || s.Name != debianEnvvars+"#"+ulimitVariable {
			t.Fatalf("%v, %v", s, err)
		}
		v, err := k.Read(t.Context(), s)
		if got := v.Text; err == nil && got != want || err != nil && !strings.Contains(err.Error(), "envvars:") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %s", envvars, v, err, want)
		}
	}
}

// What the variable holds is run as root: nothing but a limit gets there.
func TestUlimitMayBeAsked(t *testing.T) {
	k := setting.Kinds{"httpd": Product.Kind(machine.Mounted(t, debian("")))}
	s, err := k.Resolve(setting.Setting{Kind: "httpd", Name: ulimitVariable})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"ulimit -n 65536": "", "'ulimit -n 65536'": "", `"ulimit -n 8192"`: "",
		"65536": "want ulimit -n NUMBER", "ulimit -n 0": "want ulimit", "ulimit -n 5; reboot": "want ulimit", "reboot": "want ulimit", "true": "want ulimit",
		"ulimit -n 5\nreboot": "one line", "ulimit -n 99999999999": "want ulimit",
	} {
		if err := k.CheckRequest(s, setting.Text(value), nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	if _, err := k.Resolve(setting.Setting{Kind: "httpd", Name: debianEnvvars + "#LANG"}); err == nil {
		t.Error("another variable of the script has a name")
	}
	red := setting.Kinds{"httpd": Product.Kind(machine.Mounted(t, redHat))}
	s, err = red.Resolve(setting.Setting{Kind: "httpd", Name: ulimitVariable})
	if err == nil {
		err = red.CheckRequest(s, setting.Text("ulimit -n 65536"), nil)
	}
	if err == nil || !strings.Contains(err.Error(), "not a tuning option") {
		t.Errorf("Red Hat's, which has no such script: %v", err)
	}
}

// The script counts where the unit calls it.
func TestLimitScript(t *testing.T) {
	for about, c := range map[string]struct {
		unit string
		want any
	}{
		"Debian's":  {"[Service]\nExecStart=/usr/sbin/apachectl start\n", debianEnvvars},
		"by itself": {"[Service]\nExecStart=/usr/sbin/apache2 -DFOREGROUND\n", nil},
		"not there": {"", debianEnvvars},
	} {
		files := debian("")
		files["/usr/lib/systemd/system/other.service"] = "[Service]\n"
		if c.unit != "" {
			files["/usr/lib/systemd/system/apache2.service"] = c.unit
		}
		h := machine.Copy(t, files)
		i := &installed{Instance: instanceOf(h, debianMain).Instance, Host: h, Run: product.Group{Main: product.Process{PID: 7, Unit: "apache2.service"}}}
		if got := limitScript(i); got.Value != c.want || got.Unknown != "" {
			t.Errorf("%s: %+v, want %v", about, got, c.want)
		}
	}
	h := machine.Mounted(t, redHat)
	i := &installed{Instance: instanceOf(h, redHatMain).Instance, Host: h, Run: product.Group{Main: product.Process{PID: 7, Unit: "httpd.service"}}}
	if got := limitScript(i); got.Value != nil || got.Unknown != "" {
		t.Errorf("Red Hat's: %+v", got)
	}
}

func FuzzEnvvars(f *testing.F) {
	f.Add("APACHE_ULIMIT_MAX_FILES=\nX=1", "ulimit -n 8192")
	f.Add("export APACHE_ULIMIT_MAX_FILES='ulimit -n 5' # x\n\n", "'ulimit -n 8192'")
	f.Add("# APACHE_ULIMIT_MAX_FILES='", "a \\ b")
	f.Fuzz(func(t *testing.T, text, value string) {
		testkitproduct.Bytes(t, Product, debian(text), debianEnvvars+"#"+ulimitVariable, value)
	})
}
