package host

import (
	"bytes"

	"fettle.dev/fettle/internal/text"
)

// in matches the text between a command and one of its options.
const in = `[ \t\x00](?:[^\n|;&]*?[ \t\x00])??`

// passKey matches names of settings that end in "pass": DB_PASS, sshpass, but not bypass,
// PASS_MAX_DAYS or PassEnvironment.
const passKey = `(?:\b|_|\b(?:ssh|user|db|my|pg|ftp|smtp|imap|ldap|mail|root|admin|login|key|store|auth|http|snmp|vpn|proxy|redis|git|svn)` +
	`|_(?:ssh|user|db|key|store))pass`

// commandRedactions returns redactions for commands and formats in which no name such as
// "password" precedes a secret.
func commandRedactions() []redaction {
	return []redaction{
		// pass=VALUE, "pass": VALUE, pass: VALUE at the start of a line, --pass VALUE
		{words("pass"), text.LazyRegexp(`(?i)(` + passKey + `\\?["']?[ \t]*(?:=>|:=|=)[ \t]*)` + `\\?` + value), nil, false},
		{words("pass"), text.LazyRegexp(`(?i)(` + passKey + `\\?["'][ \t]*:[ \t]*)` + `\\?` + value), nil, false},
		{words("pass"), text.LazyRegexp(`(?im)^([ \t]*(?:-[ \t]+)?[\w.\-]*` + passKey + `:[ \t]+)[^\n\x00]+$`), nil, false},
		{words("pass"), text.LazyRegexp(`(?i)((?:--[\w\-]*\bpass|\b[\w\-]*_pass)[ \t\x00]+)` + word), nil, false},
		// openssl -passin pass:SECRET
		{words("-pass"), text.LazyRegexp(`(?i)([ \t\x00]-pass(?:in|out)?[ \t\x00]+(?:pass:)?)` + value), nil, false},
		// dracut: netroot=iscsi:USER:SECRET[:USER:SECRET]@HOST
		{words("iscsi: cifs:"), text.LazyRegexp(`(?i)(\b(?:iscsi|cifs):(?://)?)[^\s@"'\x00]+(@)`), nil, false},
		// The DSN of a database driver: USER:SECRET@tcp(HOST), thin:USER/SECRET@HOST
		{words("@tcp( @unix("), text.LazyRegexp(`(\b[\w.\-]+:)[^\s@"'\x00]+(@(?:tcp|unix)\()`), nil, false},
		{words("oracle:thin: sqlplus"), text.LazyRegexp(`(?i)((?:oracle:thin:|sqlplus` + in + `)[^\s/@]+/)[^\s@"'\x00]+`), nil, false},
		// SNMP: snmp_community=VALUE, com2sec NAME SOURCE VALUE, snmpwalk -c VALUE
		{words("community"), text.LazyRegexp(`(?i)(\b\w*[_\-]community[\w\-]*["']?[ \t]*[=:][ \t]*)` + value), nil, false},
		{words("community_string communitystring"), text.LazyRegexp(`(?i)(community_?string["']?[ \t]*[=:][ \t]*)` + value), nil, false},
		{words("com2sec"), text.LazyRegexp(`(?im)^([ \t]*com2sec6?[ \t]+(?:-Cn[ \t]+\S+[ \t]+)?\S+[ \t]+\S+[ \t]+)\S+`), nil, false},
		{words("trapsink trap2sink informsink"), text.LazyRegexp(`(?im)^([ \t]*(?:trap2?|inform)sink[ \t]+\S+[ \t]+)\S+`), nil, false},
		{words("snmp"), text.LazyRegexp(`(?i)(\bsnmp\w+` + in + `-[cAX][ \t\x00]*)` + value), nil, false},
		{words("createuser"), text.LazyRegexp(`(?im)^([ \t]*createUser[ \t]+)\S.*$`), nil, false},
		// Options that are a password for one command and something else for others.
		{words("ipmitool mosquitto_ sqlcmd bcp"), text.LazyRegexp(`(\b(?:ipmitool|mosquitto_(?:pub|sub|rr)|sqlcmd|bcp)` + in + `-[PE][ \t\x00]*)` + value), nil, false},
		{words("ipmi- bmc- mongo login"), text.LazyRegexp(`(\b(?:ipmi-\w+|bmc-\w+|mongo\w*|(?:docker|podman|buildah|skopeo|helm|oc|az)[ \t\x00]+(?:registry[ \t\x00]+)?login)` + in + `-p[ \t\x00]*)` + value), nil, false},
		{words("ldap"), text.LazyRegexp(`(\bldap\w+` + in + `-w[ \t\x00]*)` + value), nil, false},
		{words("redis-cli"), text.LazyRegexp(`(\bredis-cli` + in + `-a[ \t\x00]+)` + value), nil, false},
		{words("curl"), text.LazyRegexp(`(\bcurl` + in + `-(?:U|E)[ \t\x00]*[^\s:\x00]+:)` + value), nil, false},
		{words("lftp"), text.LazyRegexp(`(\blftp` + in + `-u[ \t\x00]*[^\s,\x00]+,)` + value), nil, false},
		{words("smb rpcclient cifs net"), text.LazyRegexp(`(?i)(\b(?:smb\w+|rpcclient|cifs|net[ \t\x00]+(?:ads|rpc))` + in + `(?:\S*,)?(?:-U[ \t\x00]*|--user=|user(?:name)?=)[^\s%,"'\x00]+%)[^\s,"'\x00]+`), nil, false},
		{words("rdp"), text.LazyRegexp(`(?i)(\b\w*(?:freerdp|rdesktop)\w*` + in + `(?:/p:|-p[ \t\x00]*))` + value), nil, false},
		{words("htpasswd"), text.LazyRegexp(`(\bhtpasswd[ \t\x00]+(?:-\w*b\w*|\[redacted\])[ \t\x00]+\S+[ \t\x00]+\S+[ \t\x00]+)` + value), nil, false},
		{words("wpa_passphrase"), text.LazyRegexp(`(\bwpa_passphrase[ \t\x00]+` + value + `[ \t\x00]+)` + value), nil, false},
		// GRUB: password USER SECRET
		{words("password"), text.LazyRegexp(`(?m)^([ \t]*password[ \t]+\S+[ \t]+)\S+[ \t]*$`), func(s []byte) bool { return !bytes.HasSuffix(bytes.TrimSpace(s), []byte(".so")) }, false},
		// echo SECRET | passwd --stdin, echo USER:SECRET | chpasswd
		{words("passwd sudo cryptsetup kinit"), text.LazyRegexp(`(\becho[ \t]+(?:-\w+[ \t]+)*)(?:"[^"\n]*"|'[^'\n]*'|[^\s|]+)([ \t]*\|[ \t]*(?:sudo[ \t]+-\w*S|(?:sudo[ \t]+)?(?:/\S*/)?(?:passwd|chpasswd|cryptsetup|kinit)))`), nil, false},
		// Cookies
		{words("cookie:"), text.LazyRegexp(`(?i)((?:set-)?cookie:[ \t]*)[^\s"'\x00][^\n"'\x00]*`), nil, false},
	}
}
