// RocksDB's environment in which every file is encrypted. The cipher is not here: it is called through the
// functions that `environment.rs` gives.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/env_encryption.h"
#include "rocksdb/file_system.h"

using namespace ROCKSDB_NAMESPACE;

// As the library's C interface (`db/c.cc`) defines it, which hands it on to `Options`.
struct rocksdb_env_t {
  Env* rep;
  bool is_default;
};

extern "C" {
// Must be laid out as `CipherFunctions` in environment.rs.
struct meridian_cipher_functions {
  // A data key, owned; freed with `drop_key`.
  void* key;
  size_t header_bytes;
  // Writes the header of a new file.
  void (*new_header)(const void* key, char* header);
  // Opens the keystream of the file with this header; null for one that the data key did not make.
  void* (*open_stream)(const void* key, const char* header, size_t length);
  // Encrypts or decrypts, which is the same, what lies at a place of the file.
  void (*apply)(const void* stream, uint64_t offset, char* data, size_t length);
  void (*drop_stream)(void* stream);
  void (*drop_key)(void* key);
};
}

namespace {

class CipherStream final : public BlockAccessCipherStream {
 public:
  CipherStream(const meridian_cipher_functions& functions, void* stream)
      : functions_(functions), stream_(stream) {}
  ~CipherStream() override { functions_.drop_stream(stream_); }

  size_t BlockSize() override { return 16; }

  Status Encrypt(uint64_t offset, char* data, size_t length) override {
    functions_.apply(stream_, offset, data, length);
    return Status::OK();
  }

  Status Decrypt(uint64_t offset, char* data, size_t length) override {
    return Encrypt(offset, data, length);
  }

 protected:
  // Called by the inherited forms of the two above only.
  void AllocateScratch(std::string&) override {}
  Status EncryptBlock(uint64_t, char*, char*) override { return Status::NotSupported(); }
  Status DecryptBlock(uint64_t, char*, char*) override { return Status::NotSupported(); }

 private:
  const meridian_cipher_functions functions_;
  void* const stream_;
};

class Provider final : public EncryptionProvider {
 public:
  explicit Provider(const meridian_cipher_functions& functions) : functions_(functions) {}
  ~Provider() override { functions_.drop_key(functions_.key); }

  const char* Name() const override { return "MeridianEncryption"; }

  size_t GetPrefixLength() const override { return functions_.header_bytes; }

  Status CreateNewPrefix(const std::string&, char* prefix, size_t) const override {
    functions_.new_header(functions_.key, prefix);
    return Status::OK();
  }

  Status AddCipher(const std::string&, const char*, size_t, bool) override {
    return Status::NotSupported("the data key is the directory's");
  }

  Status CreateCipherStream(const std::string& name, const EnvOptions&, Slice& prefix,
                            std::unique_ptr<BlockAccessCipherStream>* result) override {
    void* stream = functions_.open_stream(functions_.key, prefix.data(), prefix.size());
    if (stream == nullptr) {
      return Status::Corruption(name, "was not encrypted with the data key of this directory");
    }
    result->reset(new CipherStream(functions_, stream));
    return Status::OK();
  }

 private:
  const meridian_cipher_functions functions_;
};

// The library's own log of what it does (`LOG`) would go past the encryption: it may name keys.
class EncryptedLogs final : public FileSystemWrapper {
 public:
  explicit EncryptedLogs(const std::shared_ptr<FileSystem>& encrypted)
      : FileSystemWrapper(encrypted) {}

  const char* Name() const override { return "MeridianEncryptedFileSystem"; }

  IOStatus NewLogger(const std::string& name, const IOOptions& options,
                     std::shared_ptr<Logger>* result, IODebugContext* context) override {
    return FileSystem::NewLogger(name, options, result, context);
  }
};

}  // namespace

extern "C" rocksdb_env_t* meridian_encrypted_environment(
    const meridian_cipher_functions* functions) {
  auto provider = std::make_shared<Provider>(*functions);
  auto encrypted = NewEncryptedFS(FileSystem::Default(), provider);
  auto logged = std::make_shared<EncryptedLogs>(encrypted);
  return new rocksdb_env_t{NewCompositeEnv(logged).release(), false};
}
