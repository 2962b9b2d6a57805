package host

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	const s = "Hunter2xyzzy"
	for _, text := range []string{
		"password=" + s, "password = " + s + " " + s, "PASSWORD: '" + s + " two'", `"password": "` + s + `"`,
		`{"db":{"api_key":"` + s + `","n":1}}`, "export DB_PASSWORD=" + s, "Environment=\"PGPASSWORD=" + s + "\"",
		"Environment=FOO=bar TOKEN=" + s, "ExecStart=/bin/x --password " + s + " --verbose", "ExecStart=/bin/x --token=" + s,
		"BOOT_IMAGE=/vmlinuz rd.iscsi.password=" + s + " quiet", "requirepass " + s, "masterauth " + s,
		"user default on >" + s + " ~* +@all", "PrivateKey = " + s, "PresharedKey=" + s, "psk=" + s, "wpa_psk " + s,
		"postgresql://joe:" + s + "@db/x", "https://" + s + "@github.com/x", "redis://:" + s + "@h:1",
		"Authorization: Basic " + s, "Authorization: Bearer " + s, `curl -H "Authorization: token ` + s + `"`,
		"x bearer " + s, "-----BEGIN RSA PRIVATE KEY-----\n" + s + "\n-----END RSA PRIVATE KEY-----\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + s + "\n", `{"k":"-----BEGIN PRIVATE KEY-----\n` + s + `\n-----END PRIVATE KEY-----"}`,
		"mysql -u root -p" + s + " db", "sshpass -p " + s + " ssh h", "curl -u joe:" + s + " http://h",
		"mysqld\x00--password\x00" + s + "\x00x", "app\x00--secret=" + s + "\x00", "<password>" + s + "</password>",
		"rocommunity " + s, "aws_secret_access_key = " + s, "AccountKey=" + s + ";x=y", "//h/s /m cifs rw,password=" + s + ",uid=0",
		"grub_password_pbkdf2 root " + s, "root:$6$abc$" + s + s, "//u/x?X-Amz-Signature=" + s, "puppetdb_password => '" + s + "'",
		"client_secret: !vault " + s, "systemd.set_credential=db:" + s, "bindpw " + s, "glpat-" + s + s, "ghp_" + s + s,
		"GRUB_CMDLINE_LINUX=\"rd.luks.key=" + s + " quiet\"", "ro auth=" + s + " bearer=" + s + " quiet", `{"auths":{"h":{"auth": "` + s + `"}}}`,
		"ssl-key = " + s, "rd.luks.key=" + s + ":UUID=x", "http_auth := " + s,
		"hammer --password=" + s + "\npassword = " + s,
		"options wifi nohwcrypt=1 key=" + s + " key2='" + s + "'", "options wifi key=k1k1k1" + s, "//h/s /m ecryptfs rw,key=passphrase:" + s,
		"wep_key0=" + s, "  wireless-key s:" + s, "wireless-key1 " + s, "wpa_key=\"" + s + "\"",
		"/usr/bin/app -p" + s + "99 -v", "app\x00-p" + s + "99\x00", "OPTS=-p" + s + "99", "OPTS=\"-u root -p" + s + "99\"",
		"MYSQL_OPTS=\"-u root -p" + s + "\"", "mysqldump.sh -p" + s,
		"BOOT_IMAGE=/x netroot=iscsi:joe:" + s + "@192.0.2.1::3260::iqn.x ro", "netroot=iscsi:joe:" + s + ":back:" + s + "@h", "root=cifs://joe:" + s + "@h/s",
		"ro pass=" + s + " quiet", "PASS=" + s, "DB_PASS='" + s + "'", "export SSHPASS=" + s, "smtp.pass = " + s, `{"pass": "` + s + `"}`, "db_pass: " + s, "  - pass: " + s,
		"app --pass " + s, "app --db-pass=" + s, "app --userpass\x00--pass\x00" + s, "	auth_pass " + s, "openssl x -passin pass:" + s + " -in y", "'pass' => '" + s + "'",
		"snmp_community=" + s, "SNMP_COMMUNITY: " + s, "community_string = " + s, "com2sec local default " + s, "com2sec -Cn c local default " + s, "trapsink h " + s,
		"snmpwalk -v2c -c " + s + " h", "createUser joe SHA \"" + s + "\" AES " + s,
		"ipmitool -I lanplus -H h -U admin -P " + s + " power status", "ipmitool\x00-U\x00admin\x00-P\x00" + s, "ipmi-power -u a -p " + s, "mosquitto_pub -u a -P " + s,
		"mongodump -u a -p " + s, "docker login -u a -p " + s + " h", "podman login h -p " + s, "ldapsearch -x -D cn=a -w " + s, "redis-cli -h h -a " + s + " ping",
		"curl -uadmin:" + s + " h", "curl -x h -U joe:" + s + " y", "curl --user joe:" + s, "lftp -u joe," + s + " h", "smbclient //h/s -U joe%" + s, "net ads join -U joe%" + s,
		"xfreerdp /v:h /u:a /p:" + s, "htpasswd -bc /etc/x joe " + s, "wpa_passphrase \"my net\" " + s, "password root " + s, "echo " + s + " | passwd --stdin root",
		"echo \"root:" + s + "\" | chpasswd", "echo '" + s + "' | sudo -S ls", "Cookie: session=" + s, "joe:" + s + "@tcp(h:3306)/db", "jdbc:oracle:thin:scott/" + s + "@h:1521/x",
		"sqlplus -s scott/" + s + "@db", "app --password " + s + " x", "Authorization: Digest " + s, "Proxy-Authorization: " + s, "sshpass -p " + s + " ssh h", "sshpass -p'" + s + "' ssh h",
	} {
		got := string(Redact("/etc/some.conf", []byte(text)))
		if strings.Contains(got, s) {
			t.Errorf("%q became %q", text, got)
		}
		if again := string(Redact("/etc/some.conf", []byte(got))); again != got {
			t.Errorf("%q is not stable: %q, then %q", text, got, again)
		}
	}
	for _, text := range []string{
		"vm.swappiness = 10\nkernel.keys.maxkeys = 200\n", "HugePages_Total: 3\n", "[always] madvise never\n",
		"BOOT_IMAGE=/vmlinuz root=/dev/mapper/x ro quiet selinux=0 isolcpus=2-3 nohz_full=2-3\n",
		"/dev/sda1 / ext4 rw,relatime 0 0\n", "NAME=\"Debian GNU/Linux\"\nHOME_URL=\"https://www.debian.org/\"\n",
		"authentication.x=on author=joe authpriv.=y bearers=2 authoritative=1 keyboard=us\n",
		"auth required pam_unix.so\nauth,authpriv.* /var/log/auth.log\n# the bearer of it; key = value\n",
		"vconsole.keymap=us rd.luks.uuid=luks-1 hugepages.keys=3 net.key_size=4 # a public-key scheme, the auth: of x\n",
		"find / -print0 -prune -path /x -perm 0644 -p8080 -p8080:80 -port=1a2b3c4d -p/run/x1234.pid -p\ncc -pipe -pthread -pg\n",
		"options kvm nested=1 keyslots=4 # a monkey=1 turnkey=2\nB: KEY=402000000 3803078f800d001\nwep_tx_keyidx=0 wpa_key_mgmt\nwireless-mode managed\n",
		"# <file system> <mount point> <type> <options> <dump> <pass>\n/dev/sda1 / ext4 rw 0 1\n", "PASS_MAX_DAYS 99999\nPASS_MIN_DAYS 0\nPASS_WARN_AGE 7\n",
		"iommu.passthrough=1 spec_store_bypass_disable=prctl bypass=1 passes=3 intel_iommu=pass-through compass=x\n", "PassEnvironment=LANG\nbypass: 3\n/sys/block/bcache0/bypassed 0\n",
		"pass in on eth0 from any\nall tests pass, pass on\n", "rootflags=subvol=@ root=zfs:pool/os@snap root=UUID=x rd.iscsi.initiator=iqn.x netroot=iscsi:192.0.2.1::3260::iqn.x\n",
		"User=app-%i\nExecStart=/bin/x -U %u -P -w 3 -a b -c d -E e\n", "echo hello | grep h\necho 1 > /proc/x\n", "ExecStart=/usr/sbin/snmpd -LS0-6d -f\ncurl -fsS -o x https://h/\n",
		"10.0.0.1@tcp:/lustre /mnt lustre rw 0 0\nmongod --port 1 -f /etc/mongod.conf\nredis-cli -h h ping\nldapsearch -x -b dc=x\n", "openssl x509 -in y -noout\n",
		"[Unit]\nDescription=x\n[Service]\nUser=joe\nExecStart=/usr/sbin/tuned -l -P\n",
	} {
		if got := string(Redact("/etc/x", []byte(text))); got != text {
			t.Errorf("%q holds no secret and became %q", text, got)
		}
	}
	for _, p := range []string{"/etc/machine-id", "/etc/shadow", "/proc/12/environ", "/etc/ssl/private/x.key",
		"/sys/class/dmi/id/product_serial", "/proc/sys/net/ipv4/tcp_fastopen_key"} {
		if got := string(Redact(p, []byte("anything\n"))); got != Redacted+"\n" {
			t.Errorf("%s: %q", p, got)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("password=x y\n--token a https://a:b@c/")
	f.Add("-----BEGIN PRIVATE KEY-----\nabc")
	f.Add("options x key=a,key2=\"b c\" -pabc123\nwep_key0 s:x MYSQL_A=-pq")
	f.Add("user a on >b #c\nmysql -pfoo -u a:b")
	f.Fuzz(func(t *testing.T, text string) {
		once := string(Redact("/etc/x", []byte(text)))
		if twice := string(Redact("/etc/x", []byte(once))); twice != once {
			t.Errorf("%q: %q, then %q", text, once, twice)
		}
	})
}
