package fact

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// secretWord is part of every planted secret.
const secretWord = "Xyzzy7Plugh"

// plantedLines are secrets as they occur in files, one per line.
var plantedLines = []string{
	"password = " + secretWord + "a",
	"export DB_PASSWORD=" + secretWord + "b",
	"Environment=\"PGPASSWORD=" + secretWord + "c\" OTHER=x",
	"ExecStart=/usr/bin/app --token " + secretWord + "d --verbose",
	"ExecStart=/usr/bin/app --api-key=" + secretWord + "e",
	`{"client_secret": "` + secretWord + `f", "n": 1}`,
	"db_url: postgresql://joe:" + secretWord + "g@db.example.com/x",
	"curl -H 'Authorization: Bearer " + secretWord + "h' https://x",
	"Authorization: Basic " + secretWord + "i==",
	"PrivateKey = " + secretWord + "j=",
	"PresharedKey = " + secretWord + "k=",
	"requirepass " + secretWord + "l",
	"aws_secret_access_key=" + secretWord + "m",
	"//nas/share /mnt cifs username=joe,password=" + secretWord + "n,uid=0 0 0",
	"-----BEGIN RSA PRIVATE KEY-----\n" + secretWord + "o\n-----END RSA PRIVATE KEY-----",
	"wpa_psk=" + secretWord + "p",
	"rocommunity " + secretWord + "q",
	"user default on >" + secretWord + "r ~* +@all",
	"<password>" + secretWord + "s</password>",
	"GRUB_CMDLINE_LINUX=\"rd.luks.key=" + secretWord + "u quiet\"",
	"auth=" + secretWord + "v",
	"x y bearer=" + secretWord + "w",
	"options wifi debug=1 key=" + secretWord + "x",
	"ExecStart=/usr/bin/app -p" + secretWord + "9",
	"PASS=" + secretWord + "A",
	"snmp_community=" + secretWord + "B",
	"ExecStart=/usr/bin/ipmitool -I lanplus -U admin -P " + secretWord + "C power on",
	"curl -u admin:" + secretWord + "D https://x",
	"mysql -u root -p" + secretWord + "E x",
	"sshpass -p " + secretWord + "F ssh h",
	"app --password " + secretWord + "G",
	"Authorization: " + secretWord + "H",
	"echo " + secretWord + "I | passwd --stdin root",
	"docker login -u x -p " + secretWord + "J h",
	"redis-cli -a " + secretWord + "K ping",
	"ldapsearch -x -w " + secretWord + "L",
	"smbclient //h/s -U joe%" + secretWord + "M",
	"	auth_pass " + secretWord + "N",
	"com2sec local default " + secretWord + "O",
	"db_pass: " + secretWord + "P",
	"joe:" + secretWord + "Q@tcp(h:3306)/x",
	"root:$6$salt$" + secretWord + "t:19000::::::",
}

// planting is a machine with secrets at the end of every file: all of them
// below /etc and at the top of /proc, elsewhere two per file in turn.
type planting struct {
	host.Files
	oneLine bool
	read    map[string]bool
}

func (f planting) ReadFile(p string) ([]byte, error) {
	b, err := f.Files.ReadFile(p)
	if err != nil {
		return b, err
	}
	if strings.HasSuffix(p, "/cpuinfo") || strings.HasSuffix(p, "/interrupts") {
		return b, nil // kernel files that are not redacted, for speed
	}
	f.read[p] = true
	if f.oneLine {
		line := strings.TrimRight(string(b), "\n") + " rd.iscsi.password=" + secretWord + "1 token=" + secretWord +
			"2 systemd.set_credential=db:" + secretWord + "3 url=http://u:" + secretWord + "4@h/ rd.luks.key=" + secretWord + "5 netroot=iscsi:joe:" + secretWord + "8@192.0.2.1::3260::iqn.x pass=" + secretWord + "9 auth=" + secretWord + "6 bearer=" + secretWord + "7 quiet\n"
		return []byte(line), nil
	}
	lines := plantedLines
	if !strings.HasPrefix(p, "/etc/") && strings.Count(p, "/") > 2 {
		i := len(f.read) % (len(lines) - 1)
		lines = lines[i : i+2]
	}
	return append(append(bytes.TrimRight(b, "\n"), '\n'), strings.Join(lines, "\n")+"\n"...), nil
}

// Neither the facts nor the archive of a machine contain a secret from a file
// that was read.
func TestNoSecretLeaves(t *testing.T) {
	for _, oneLine := range []bool{false, true} {
		h := host.Live()
		p := planting{h.Files, oneLine, map[string]bool{}}
		h.Files = p
		facts, recording := archiveFor(h)
		var text bytes.Buffer
		if _, err := recording.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		// Also without a recording: the output of "fettle facts".
		direct, err := json.Marshal(Collect(h))
		if err != nil {
			t.Fatal(err)
		}
		printed, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.read) < 100 || !p.read["/proc/cmdline"] {
			t.Fatalf("only %d files were read", len(p.read))
		}
		for what, b := range map[string][]byte{"archive": text.Bytes(), "facts": printed, "facts without a recording": direct} {
			if i := bytes.Index(b, []byte(secretWord)); i >= 0 {
				t.Errorf("one line %v: %s holds a secret: ...%s...", oneLine, what, b[max(0, i-200):min(len(b), i+40)])
			}
			if !bytes.Contains(b, []byte(host.Redacted)) {
				t.Errorf("%s has nothing redacted: were the secrets planted?", what)
			}
		}
	}
}

// archiveFor omits, in short tests, the parts of an archive in addition to the facts.
func archiveFor(h *host.Host) (*Facts, *host.Recording) {
	if !testing.Short() {
		return Archive(h)
	}
	rec, recording := host.Record(h)
	return Collect(rec), recording
}

// Files that are secret as a whole, in the directories that an archive reads.
func TestSecretFilesAreHidden(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"etc/machine-id", "proc/sys/net/ipv4/tcp_fastopen_key", "proc/sys/net/ipv6/conf/eth0/stable_secret",
		"etc/tuned/site.key", "etc/systemd/system/app.service.d/10-password.conf", "etc/fettle/keep.d/x.conf", "proc/1/environ",
		"sys/class/dmi/id/product_serial", "sys/class/dmi/id/product_uuid",
	} {
		content := secretWord + "\n"
		if strings.HasSuffix(name, ".conf") {
			content = "[Service]\nEnvironment=API_TOKEN=" + secretWord + "\n"
		}
		machine.WriteFile(t, dir, name, content)
	}
	_, recording := Archive(host.Mounted(dir))
	var text bytes.Buffer
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text.Bytes(), []byte(secretWord)) {
		t.Errorf("a secret is in\n%s", &text)
	}
	if !bytes.Contains(text.Bytes(), []byte("Environment=API_TOKEN="+host.Redacted)) {
		t.Errorf("the unit's drop-in is missing from\n%s", &text)
	}
}
