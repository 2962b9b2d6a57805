package puppet

// Server describes the Puppet Server that is sized, and the web servers on its machine.
type Server struct {
	Copy       string // the copy of a machine that was searched; "" for this machine
	Version    string // "" if none is installed
	Enterprise bool   // Puppet Enterprise, whose Code Manager versions the code
	Satellite  bool   // its installer owns the server's files
	RedHat     bool   // the layout of Red Hat's packages for the web servers

	Static    bool   // static_catalogs
	StaticAt  string // position of the line that sets it to false
	Versioned bool   // code-id-command is set

	Interpreters int    // effective number, set or by default
	Heap         uint64 // bytes; 0 if unknown
	CodeCache    uint64 // bytes; 0 if not set

	// Files.
	Options      string // directory of its HOCON files, without leading /
	OptionsFile  string // of max-active-instances, without leading /
	OptionsText  string
	CommandsAt   string // where a command of static catalogs is set outside of its own file, or ""
	HeadersAt    string // where allow-header-cert-info is set already, or ""
	Headers      bool   // its value there
	Webserver    string // webserver.conf for plain HTTP on the loopback
	WebserverNo  string // why Webserver is empty
	JavaFile     string // of JAVA_ARGS, without leading /
	JavaText     string
	Environments string // directory of the environments
	Data         string // directory that the server's user can write
	User         string
	// OptionSet and JavaSet return those texts with changed values.
	OptionSet func(text, key, value string) (string, error)
	JavaSet   func(text string, sizes map[string]string) (string, error)

	// Paths of the server's own TLS files; "" if unknown.
	Certificate, Key, CA, CRL string

	// FileRule names a rule of auth.conf that denies some nodes files that a cache would serve
	// to all ("FILE:LINE does not ..."), or is "".
	FileRule string

	Nginx, Apache string // versions; "" if not installed
}
