if __name__ == "__main__":
    start()
    stop()
