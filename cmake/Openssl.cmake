# OpenSSL::SSL and OpenSSL::Crypto, with our own word about what to install.
find_package(OpenSSL 1.1.1 QUIET)
if(NOT OpenSSL_FOUND)
  message(FATAL_ERROR "
overlimit's Redis store needs OpenSSL (1.1.1 or newer) and its headers.
  Debian/Ubuntu:  apt-get install libhiredis-dev libssl-dev
  Fedora/RHEL:    dnf install hiredis-devel openssl-devel
  Alpine:         apk add hiredis-dev openssl-dev
  macOS:          brew install hiredis openssl
or point to a prefix:
  pip install . -Ccmake.define.OPENSSL_ROOT_DIR=/opt/openssl
or build without Redis:
  pip install . -Ccmake.define.OVERLIMIT_REDIS=OFF
")
endif()
